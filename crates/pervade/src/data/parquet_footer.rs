//! A look at a Parquet file's footer before its decoder sees it. The footer is written in Thrift's compact protocol, in
//! which a list says how many elements follow; the decoder believes it, and a damaged kilobyte keeps it busy for seconds.

/// Bytes at the end of the file: the length of the footer, and `PAR1`.
const TAIL: usize = 8;
/// Structs inside structs; Parquet's own reach a handful.
const MOST_DEPTH: usize = 64;

/// Whether a list or map of the footer claims more elements than there are bytes left for them. What is damaged in
/// another way is for the decoder to say.
pub(super) fn is_lying(file: &[u8]) -> bool {
    let footer = || -> Option<&[u8]> {
        let end = file.len().checked_sub(TAIL)?;
        let length = u32::from_le_bytes(file.get(end..end + 4)?.try_into().ok()?) as usize;
        file.get(end.checked_sub(length)?..end)
    };
    footer().is_some_and(|left| matches!(Walk { left }.fields(0), Err(Stop::Lie)))
}

/// Why a walk through the footer ended early.
enum Stop {
    /// More elements are claimed than can be there.
    Lie,
    /// Damaged in another way.
    Other,
}

/// The bytes that are left of the footer.
struct Walk<'b> {
    left: &'b [u8],
}

impl Walk<'_> {
    fn skip(&mut self, n: usize) -> Result<(), Stop> {
        self.left = self.left.get(n..).ok_or(Stop::Other)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.left.first().ok_or(Stop::Other)?;
        self.skip(1)?;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Other)
    }

    /// The fields of a struct, up to its end.
    fn fields(&mut self, depth: usize) -> Result<(), Stop> {
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            if head >> 4 == 0 {
                self.varint()?; // the field's number, where it does not follow the one before closely
            }
            match head & 0x0f {
                1 | 2 => {} // a truth value is in the head itself
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(usize::try_from(length).map_err(|_| Stop::Other)?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                self.elements(count, &[head & 0x0f], depth)
            }
            11 => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                self.elements(count, &[kinds >> 4, kinds & 0x0f], depth)
            }
            12 if depth < MOST_DEPTH => self.fields(depth + 1),
            13 => self.skip(16),
            _ => Err(Stop::Other),
        }
    }

    /// Every element takes a byte or more.
    fn elements(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<(), Stop> {
        if count > self.left.len() as u64 {
            return Err(Stop::Lie);
        }
        if depth >= MOST_DEPTH {
            return Err(Stop::Other);
        }
        (0..count).try_for_each(|_| kinds.iter().try_for_each(|&kind| self.value(kind, depth + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::is_lying;

    fn file(footer: &[u8]) -> Vec<u8> {
        [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
    }

    #[test]
    fn a_list_without_room_for_its_elements_is_a_lie() {
        // Field 1: a list of three truth values; field 2: an empty struct; the end.
        assert!(!is_lying(&file(&[0x19, 0x31, 1, 2, 1, 0x1c, 0, 0])));
        // The same list claims 2^31 - 1 elements.
        assert!(is_lying(&file(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 1, 2, 1, 0])));
        // A map that claims 200 pairs, inside a struct.
        assert!(is_lying(&file(&[0x1c, 0x1b, 200, 1, 0x55, 1, 1, 0, 0])));
        for damaged in [&[][..], &[0x19], &[0x1f, 0], &[0x18, 0xff, 0xff]] {
            assert!(!is_lying(&file(damaged)));
        }
        assert!(!is_lying(b"PAR1") && !is_lying(&[0xff; 9]));
    }

    #[test]
    fn sound_files_are_not_lying() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/readers");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
        assert!(files.len() > 2);
        for path in files {
            assert!(!is_lying(&std::fs::read(&path).unwrap()), "{}", path.display());
        }
    }
}
