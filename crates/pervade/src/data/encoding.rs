//! Texts that are not UTF-8: spreadsheets write CSV in Windows-1252, unless they are asked for UTF-8.

use csv::ByteRecord;

/// What is said about a text that is not UTF-8.
pub(super) const NOTE: &str = "the text is not UTF-8: it is read as Windows-1252 (Western Europe)";

/// Letters of the bytes from 0x80 to 0x9f; five of them stand for nothing and are themselves, so that different words stay different.
const LETTERS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', //
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Writes fields that are not UTF-8 in UTF-8; whether there were any.
pub(super) fn to_utf8(record: &mut ByteRecord) -> bool {
    if record.iter().all(|field| std::str::from_utf8(field).is_ok()) {
        return false;
    }
    let mut changed: ByteRecord = record
        .iter()
        .map(|field| match std::str::from_utf8(field) {
            Ok(text) => text.to_string(),
            Err(_) => field.iter().map(|&byte| letter(byte)).collect(),
        })
        .collect::<Vec<String>>()
        .into();
    changed.set_position(record.position().cloned());
    *record = changed;
    true
}

fn letter(byte: u8) -> char {
    byte.checked_sub(0x80).and_then(|i| LETTERS.get(usize::from(i))).copied().unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_1252_becomes_utf8_and_utf8_stays() {
        let mut record = ByteRecord::from(vec![&b"M\xfcller"[..], b"5 \x80", "größe".as_bytes(), b"1.5"]);
        assert!(to_utf8(&mut record));
        assert_eq!(record, vec!["Müller", "5 €", "größe", "1.5"]);
        assert!(!to_utf8(&mut record));
    }

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        let letters: std::collections::BTreeSet<char> = (0..=255).map(letter).collect();
        assert_eq!(letters.len(), 256);
        // By the table of the WHATWG encoding standard.
        assert_eq!([0x80, 0x8a, 0x9f, 0xe4].map(letter), ['€', 'Š', 'Ÿ', 'ä']);
    }
}
