//! The wire format of Protocol Buffers: fields of messages, written one after the other.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// Wire types.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

impl Message {
    /// A message without fields.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// An integer.
    pub(crate) fn integer(mut self, field: u64, value: i64) -> Self {
        self.key(field, VARINT);
        // Negative numbers are 64-bit two's complement.
        self.varint(value as u64);
        self
    }

    /// A number in single precision.
    pub(crate) fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, FIXED_32);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// A number in double precision.
    pub(crate) fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, FIXED_64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Bytes.
    pub(crate) fn raw(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Text.
    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.raw(field, text.as_bytes())
    }

    /// A message within this one.
    pub(crate) fn message(self, field: u64, message: &Message) -> Self {
        self.raw(field, &message.bytes)
    }

    /// Adds the fields of another message.
    pub(crate) fn extend(mut self, fields: &Message) -> Self {
        self.bytes.extend_from_slice(&fields.bytes);
        self
    }

    /// The bytes of the message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the documentation of the encoding.
    #[test]
    fn fields_are_encoded_as_documented() {
        assert_eq!(Message::new().integer(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").into_bytes(), *b"\x12\x07testing");
        let inner = Message::new().integer(1, 150);
        assert_eq!(Message::new().message(3, &inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let minus_two = Message::new().integer(1, -2).into_bytes();
        assert_eq!(minus_two, [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(Message::new().float(16, 1.0).into_bytes(), [0x85, 0x01, 0, 0, 0x80, 0x3f]);
        assert_eq!(Message::new().double(1, 1.0).into_bytes(), [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }
}
