//! What the file says about itself.

use pervade::Result;
use pervade::data::{Column, ColumnType, LevelKind};
use pervade::model::Vade;
use serde_json::{Map, Value, json};

use super::OnnxOptions;
use super::cells::{Given, TypedInputs};

/// Keys and values of the metadata, in order.
pub(super) fn metadata(model: &Vade, options: &OnnxOptions) -> Result<Vec<(&'static str, String)>> {
    let about = model.metadata();
    let mut entries = vec![
        ("pervade.version", env!("CARGO_PKG_VERSION").to_string()),
        ("pervade.model_version", about.version.clone()),
        ("pervade.model_checksum", model.checksum()?),
        ("pervade.data_checksum", about.data_checksum.clone()),
        ("pervade.clusters", about.n_clusters.to_string()),
        ("pervade.occupancy", json!(about.occupancy).to_string()),
    ];
    if options.score {
        entries.push(("pervade.score", model.score_name().to_string()));
    }
    if let Some(image) = model.image() {
        let shape = json!([image.height, image.width, image.channels]);
        entries.push(("pervade.image", shape.to_string()));
    }
    let columns = columns(model);
    if !columns.is_null() {
        entries.push(("pervade.columns", columns.to_string()));
    }
    if let Some(schema) = model.schema() {
        entries.push(("pervade.missing", json!(schema.missing_cells().0).to_string()));
    }
    Ok(entries)
}

/// The columns in order; null if they have neither names nor types.
fn columns(model: &Vade) -> Value {
    let Some(schema) = model.schema() else { return json!(model.column_names()) };
    let inputs = TypedInputs::new(model, schema);
    let (names, is_matrix) = (inputs.names(), inputs.is_matrix());
    let column = |(j, column): (usize, &Column)| {
        let mut entry = Map::new();
        entry.insert("name".into(), json!(column.name));
        if !is_matrix {
            entry.insert("input".into(), json!(names[j]));
        }
        entry.insert("type".into(), json!(column.kind.to_string()));
        entry.insert("given_as".into(), json!(given_as(column)));
        if !column.levels.is_empty() {
            entry.insert("levels".into(), json!(column.levels));
        }
        Value::Object(entry)
    };
    Value::Array(schema.source_columns().iter().enumerate().map(column).collect())
}

fn given_as(column: &Column) -> &'static str {
    match (Given::of(column), column.level_kind) {
        (Given::Word, _) => "text",
        (Given::Date, _) => "seconds since 1970-01-01 UTC",
        (Given::Number, LevelKind::Truth) if column.kind == ColumnType::YesNo => "0 or 1",
        (Given::Number, _) => "number",
    }
}

/// The description of the graph.
pub(super) fn description(model: &Vade, options: &OnnxOptions) -> String {
    let about = model.metadata();
    let rows = match model.schema() {
        None => "`rows` is float32, one column per column of the table, without missing cells".to_string(),
        Some(schema) if TypedInputs::new(model, schema).is_matrix() => {
            "`rows` is float64, one column per column of the table; NaN is a missing cell".to_string()
        }
        Some(_) => "one input of shape [batch, 1] per column: float64 for numbers (NaN is missing) and for dates (seconds since \
                    1970-01-01 UTC), text for levels (an empty text is missing, and so are unknown levels unless the column \
                    has the level `(other)`)"
            .to_string(),
    };
    let score = if options.score { score_words(model) } else { String::new() };
    format!(
        "A pervade model of {} clusters, fitted to {} rows and {} columns. Inputs are rows as they are, their preparation is part of \
         the graph: {rows}. Outputs: `cluster`, the most probable cluster; `probabilities` of all clusters; `latents`, the mean of \
         q(z|x){score}. The metadata entry pervade.columns has names, types and levels of the columns.",
        about.n_clusters,
        about.n_rows,
        about.n_source_columns()
    )
}

fn score_words(model: &Vade) -> String {
    let what = match model.score_name() {
        "elbo" => "the ELBO with z at its mean",
        _ => "the log density",
    };
    let gaps = if super::has_scores_for_complete_rows_only(model) {
        " (NaN for rows with missing cells, which the fit did not have)"
    } else {
        ""
    };
    format!("; `score`, {what}, in nats{gaps}")
}
