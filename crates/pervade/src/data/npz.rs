//! NumPy's `.npz`: a zip file of named arrays, and SciPy's sparse matrices in that format.

use std::io::Cursor;

use zip::ZipArchive;

use super::arrays::{self, Entry};
use super::bytes::Source;
use super::dataset::{Dataset, Values};
use super::elements::{Items, NdArray};
use super::labels::Labels;
use super::npy;
use super::options::{ReadOptions, Table};
use super::sparse::{self, SparseParts};
use crate::{Error, Result};

/// The arrays of a SciPy sparse matrix.
const SPARSE: [&str; 4] = ["data", "indices", "indptr", "shape"];

/// Reads the table and the requested labels; other arrays are not unpacked.
pub(super) fn read(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Table> {
    let mut file = Npz::open(bytes, location)?;
    let data = if options.array.is_none() && SPARSE.iter().all(|name| file.position(name).is_some()) {
        file.sparse_table()?
    } else {
        let table = arrays::pick_table(&file.entries, options.array.as_deref(), location)?;
        let location = file.location_of(table);
        file.array(table)?.into_dataset(&location)?
    };
    let labels = match &options.labels {
        Some(wanted) => {
            let index = arrays::pick_labels(&file.entries, wanted, location)?;
            Some(file.labels(index)?)
        }
        None => None,
    };
    Ok(Table::new(data, labels))
}

/// Whether there is an array `name`.
pub(super) fn has_array(bytes: &[u8], location: &str, name: &str) -> Result<bool> {
    Ok(Npz::open(bytes, location)?.position(name).is_some())
}

/// Reads a label file.
pub(super) fn read_labels(bytes: &[u8], location: &str) -> Result<Labels> {
    let mut file = Npz::open(bytes, location)?;
    let index = arrays::pick_only_labels(&file.entries, location)?;
    file.labels(index)
}

struct Npz<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    entries: Vec<Entry>,
    /// Index of each entry in the zip file, which may hold other files too.
    indices: Vec<usize>,
    location: String,
    n_bytes: u64,
}

impl<'a> Npz<'a> {
    fn open(bytes: &'a [u8], location: &str) -> Result<Self> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| broken(location, &e))?;
        let mut file = Self {
            zip,
            entries: Vec::new(),
            indices: Vec::new(),
            location: location.into(),
            n_bytes: bytes.len() as u64,
        };
        for index in 0..file.zip.len() {
            let name = file.name(index);
            if let Some(name) = name.strip_suffix(".npy") {
                let shape = npy::read_header(&mut file.source(index)?)?.shape;
                file.entries.push(Entry { name: name.to_string(), shape });
                file.indices.push(index);
            }
        }
        Ok(file)
    }

    fn name(&self, index: usize) -> String {
        self.zip.name_for_index(index).and_then(|name| name.ok()).map(|n| n.into_owned()).unwrap_or_default()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.name == name)
    }

    fn location_of(&self, entry: usize) -> String {
        format!("{}, array {}", self.location, self.entries[entry].name)
    }

    fn source(&mut self, index: usize) -> Result<Source<'_>> {
        let location = format!("{}, array {}", self.location, self.name(index).trim_end_matches(".npy"));
        let file = self.zip.by_index(index).map_err(|e| broken(&location, &e))?;
        let packed = file.compressed_size().min(self.n_bytes);
        Ok(Source::packed(file, packed, &location))
    }

    fn array(&mut self, entry: usize) -> Result<NdArray> {
        npy::read(&mut self.source(self.indices[entry])?)
    }

    fn labels(&mut self, entry: usize) -> Result<Labels> {
        let location = self.location_of(entry);
        self.array(entry)?.into_labels(&location)
    }

    fn named(&mut self, name: &str) -> Result<NdArray> {
        let entry = self
            .position(name)
            .ok_or_else(|| Error::data(&self.location, format!("the sparse matrix has no array `{name}`")))?;
        self.array(entry)
    }

    /// A matrix saved by `scipy.sparse.save_npz`.
    fn sparse_table(&mut self) -> Result<Dataset<'static>> {
        let location = self.location.clone();
        let at = |name: &str| format!("{location}, array {name}");
        let shape: Vec<usize> = self.named("shape")?.items.into_indices(&at("shape"))?;
        let &[n_rows, n_columns] = shape.as_slice() else {
            return Err(Error::data(at("shape"), format!("a table has two axes, this shape is {shape:?}")));
        };
        sparse::check_columns(n_columns, &location)?;
        let format = match self.position("format") {
            Some(entry) => match self.array(entry)?.items {
                Items::Text(words) => words.concat(),
                _ => String::new(),
            },
            None => "csr".into(),
        };
        let parts = SparseParts {
            starts: self.named("indptr")?.items.into_indices(&at("indptr"))?,
            indices: self.named("indices")?.items.into_indices(&at("indices"))?,
            values: self.named("data")?.items.into_f32(&at("data"))?,
        };
        let csr = match format.as_str() {
            "csr" => parts.into_csr(n_rows, n_columns, &location)?,
            "csc" => parts.transposed(n_rows, n_columns, &location)?,
            other => {
                return Err(Error::data(&location, format!("sparse format `{other}` is not supported"))
                    .with_hint("save it with `scipy.sparse.save_npz(file, matrix.tocsr())`"));
            }
        };
        Dataset::new(n_rows, n_columns, Values::Csr(csr), location)
    }
}

fn broken(location: &str, error: &zip::result::ZipError) -> Error {
    Error::data(location, format!("the zip file cannot be read: {error}"))
        .with_hint("the file is cut short or damaged")
}
