//! log p(x|z) of typed columns, tables of counts and multinomial rows, and its gradients, against PyTorch's distributions;
//! `testdata/oracle/make_typed.py` wrote the values.

use crate::common::Oracle;
use crate::common::ops::assert_tensor_close;
use pervade::compute::prelude::*;
use pervade::compute::{ColumnFamily, ColumnTable, Cpu, Likelihood, Matrix, TypedColumn};

const ROWS: usize = 6;
const SAMPLES: usize = 2;
const TOLERANCE: f64 = 1e-6;

fn matrix(data: Vec<f32>, rows: usize) -> Matrix<Vec<f32>> {
    let columns = data.len() / rows;
    Matrix { data, restarts: 1, rows, columns }
}

/// Rows, output and log scales of a case.
fn given(oracle: &Oracle, case: &str) -> [Matrix<Vec<f32>>; 3] {
    let tensor = |name: &str, rows| matrix(oracle.f32(&format!("{case}/{name}")), rows);
    [tensor("x", ROWS), tensor("output", SAMPLES * ROWS), tensor("scales", SAMPLES * ROWS)]
}

/// The columns of a case; inputs, outputs and scales in their order.
fn columns(oracle: &Oracle, case: &str) -> Vec<TypedColumn> {
    let numbers = |name: &str| oracle.f32(&format!("{case}/{name}"));
    let (shift, factor, weight) = (numbers("shift"), numbers("factor"), numbers("weight"));
    let (families, levels) = (oracle.u32(&format!("{case}/families")), oracle.u32(&format!("{case}/levels")));
    let (mut output, mut scale) = (0, 0);
    let column = |j: usize| {
        let family = match families[j] {
            0 => ColumnFamily::Gaussian,
            1 => ColumnFamily::Count,
            2 => ColumnFamily::Bernoulli,
            _ => ColumnFamily::Categorical { levels: levels[j] },
        };
        let has_scale = families[j] < 2;
        let column = TypedColumn {
            family,
            input: output,
            output,
            scale: has_scale.then_some(scale),
            gap: None,
            shift: shift[j],
            factor: factor[j],
            weight: weight[j],
        };
        output += levels[j];
        scale += u32::from(has_scale);
        column
    };
    (0..families.len()).map(column).collect()
}

/// The device's value and gradients, and the host's value, against PyTorch's.
fn assert_case(oracle: &Oracle, case: &str, table: ColumnTable<'_>) {
    let theirs = |name: &str| oracle.f64(&format!("{case}/{name}"));
    let [x, mut output, mut scales] = given(oracle, case);
    let of_sample = |i: usize| {
        let row = |matrix: &Matrix<Vec<f32>>, i: usize| {
            matrix.data[i * matrix.columns..][..matrix.columns].to_vec()
        };
        table.log_density(&row(&x, i % ROWS), &row(&output, i), &row(&scales, i))
    };
    let on_host = (0..SAMPLES * ROWS).map(of_sample).sum::<f64>() / SAMPLES as f64;
    let value = theirs("value")[0];
    assert!((on_host / value - 1.0).abs() < 1e-8, "{case}: {on_host} on the host, expected {value}");

    let cpu = Cpu::new();
    let mut sums = cpu.sums(1, ROWS, SAMPLES).unwrap();
    let columns = cpu.columns(table).unwrap();
    cpu.typed_likelihood(&columns, &x, &mut output, &mut scales, &mut sums).unwrap();
    let ours = cpu.take_sums(&mut sums).unwrap()[0].reconstruction;
    assert!((ours / value - 1.0).abs() < 1e-8, "{case}: {ours}, expected {value}");
    for (name, gradient) in [("output", &output), ("scales", &scales)] {
        let theirs = theirs(&format!("gradient/{name}"));
        assert_tensor_close(&gradient.data, &theirs, TOLERANCE, &format!("{case}: {name}"));
    }
}

#[test]
fn typed_columns() {
    let oracle = Oracle::open("typed.safetensors");
    for case in ["typed", "typed, beyond bounds"] {
        let columns = columns(&oracle, case);
        let table = ColumnTable::Typed(&columns);
        assert!(table.is_valid());
        assert_case(&oracle, case, table);
        assert!(oracle.f32(&format!("{case}/x")).iter().any(|x| x.is_nan()), "{case}: cells are missing");
    }
}

#[test]
fn tables_of_counts() {
    let oracle = Oracle::open("typed.safetensors");
    for (case, n_columns) in [("counts up to 30", 21), ("counts up to 1000000", 9)] {
        assert_case(&oracle, case, ColumnTable::Counts { n_columns });
    }
}

#[test]
fn multinomial_rows() {
    let oracle = Oracle::open("typed.safetensors");
    let [x, mut output, _] = given(&oracle, "multinomial");
    let cpu = Cpu::new();
    let mut sums = cpu.sums(1, ROWS, SAMPLES).unwrap();
    cpu.likelihood(&[Likelihood::Multinomial], &x, &mut output, &mut sums).unwrap();
    let (ours, value) =
        (cpu.take_sums(&mut sums).unwrap()[0].reconstruction, oracle.f64("multinomial/value")[0]);
    assert!((ours / value - 1.0).abs() < 1e-6, "{ours}, expected {value}");
    let theirs = oracle.f64("multinomial/gradient/output");
    assert_tensor_close(&output.data, &theirs, TOLERANCE, "output");
}
