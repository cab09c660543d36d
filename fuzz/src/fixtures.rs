//! Small models and their tables, fitted when a target first needs them.

use std::sync::OnceLock;

use pervade::config::{PretrainKind, Recipe};
use pervade::data::{ImageShape, ReadOptions, Table, read_bytes};
use pervade::{Clusters, Cpu, Dataset, Settings, Silent, Vade, fit};

/// A model and the rows that it was fitted to.
pub struct Fitted {
    pub model: Vade,
    pub table: Table,
}

impl Fitted {
    fn new(table: Table) -> Self {
        let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
            (s.components, s.latents, s.hidden) = (Some(4), Some(2), Some(vec![4]));
            s.pretrain = PretrainKind::EndToEnd;
            (s.pretrain_epochs, s.epochs, s.batch) = (Some(2), Some(1), 16);
            (s.mixture_starts, s.neighbours) = (1, 3);
        });
        let settings = settings.check(&table.data).unwrap();
        let model = fit(&table.data, &settings, &Cpu::new(), &mut Silent, None).unwrap().model;
        // As it is read from its file, with a checksum.
        let model = Vade::from_bytes(&model.to_bytes().unwrap(), "fuzzed.pervade".as_ref()).unwrap();
        Self { model, table }
    }

    /// Words, numbers, gaps, dates, yes/no and a column that goes along.
    pub fn typed() -> &'static Self {
        static TYPED: OnceLock<Fitted> = OnceLock::new();
        TYPED.get_or_init(|| Self::new(read_bytes(typed_csv().as_bytes(), "csv", &typed_options()).unwrap()))
    }

    /// Images of 2 x 2 grey pixels.
    pub fn pictures() -> &'static Self {
        static PICTURES: OnceLock<Fitted> = OnceLock::new();
        PICTURES.get_or_init(|| {
            let pixel = |i: usize, j: usize| ((i % 3 * 80 + i * 7 % 5 + j * 11) % 255) as f32 / 255.0;
            let pixels = (0..48).flat_map(|i| (0..4).map(move |j| pixel(i, j))).collect();
            let data = Dataset::from_rows(48, 4, pixels).unwrap();
            let shape = ImageShape { height: 2, width: 2, channels: 1 };
            Self::new(Table::new(data.with_image(shape), None))
        })
    }
}

/// Some of the penguins with a name, a date and an answer each.
pub fn typed_csv() -> String {
    let penguins = include_str!("../../testdata/readers/penguins.csv");
    let mut lines = penguins.lines();
    let mut text = format!("id,{},seen,tagged\n", lines.next().unwrap());
    for (i, line) in lines.step_by(6).enumerate() {
        let tagged = ["yes", "no", "no", ""][i % 4];
        text += &format!("P-{i:03},{line},2021-{:02}-{:02},{tagged}\n", i % 12 + 1, i % 28 + 1);
    }
    text
}

/// How its rows are read.
pub fn typed_options() -> ReadOptions {
    ReadOptions::with_labels("column:species").unwrap().with(|options| {
        options.keep = vec!["id".to_string()];
        options.missing_informative = true;
    })
}
