//! The assignment problem: the one-to-one matching of rows and columns with the highest sum.

/// The column matched to each row so that the sum of the matched values is highest; `None` for rows left over if there
/// are fewer columns. Shortest augmenting paths with potentials (Kuhn, 1955; Jonker and Volgenant, 1987), O(n^2 m).
///
/// # Shapes
/// - values: `[n_rows, n_columns]`, result: `[n_rows]`
pub fn best_matching(values: &[i64], n_rows: usize, n_columns: usize) -> Vec<Option<usize>> {
    assert_eq!(values.len(), n_rows * n_columns, "values must be a table of n_rows by n_columns");
    if n_rows <= n_columns {
        let columns = match_rows(n_rows, n_columns, |row, column| -values[row * n_columns + column]);
        return columns.into_iter().map(Some).collect();
    }
    let rows = match_rows(n_columns, n_rows, |column, row| -values[row * n_columns + column]);
    let mut matched = vec![None; n_rows];
    rows.into_iter().enumerate().for_each(|(column, row)| matched[row] = Some(column));
    matched
}

/// The column of each row at the lowest total cost, for `n_rows <= n_columns`.
fn match_rows(n_rows: usize, n_columns: usize, cost: impl Fn(usize, usize) -> i64) -> Vec<usize> {
    /// Marks a free column.
    const FREE: usize = usize::MAX;
    let mut row_potential = vec![0i64; n_rows];
    let mut column_potential = vec![0i64; n_columns];
    let mut row_of = vec![FREE; n_columns];
    for new_row in 0..n_rows {
        // Dijkstra over columns from `new_row`, with costs made non-negative by the potentials.
        let mut distance = vec![i64::MAX; n_columns];
        let mut came_from = vec![FREE; n_columns];
        let mut done = vec![false; n_columns];
        let (mut row, mut last) = (new_row, FREE);
        let mut reached = 0;
        let free_column = loop {
            for column in (0..n_columns).filter(|&column| !done[column]) {
                let reduced = cost(row, column) - row_potential[row] - column_potential[column];
                if reached + reduced < distance[column] {
                    distance[column] = reached + reduced;
                    came_from[column] = last;
                }
            }
            let next = (0..n_columns).filter(|&column| !done[column]).min_by_key(|&column| distance[column]);
            let next = next.expect("no fewer columns than rows");
            (reached, last, done[next]) = (distance[next], next, true);
            if row_of[next] == FREE {
                break next;
            }
            row = row_of[next];
        };
        row_potential[new_row] += reached;
        for column in (0..n_columns).filter(|&column| done[column] && column != free_column) {
            row_potential[row_of[column]] += reached - distance[column];
            column_potential[column] -= reached - distance[column];
        }
        // Every column on the path passes its row on to the next.
        let mut column = free_column;
        while came_from[column] != FREE {
            row_of[column] = row_of[came_from[column]];
            column = came_from[column];
        }
        row_of[column] = new_row;
    }
    let mut column_of = vec![0; n_rows];
    for column in (0..n_columns).filter(|&column| row_of[column] != FREE) {
        column_of[row_of[column]] = column;
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The highest sum, by trying every matching of the rows from `row` on.
    fn brute_force(values: &[i64], n_columns: usize, row: usize, free: &mut Vec<bool>, skips: usize) -> i64 {
        if row * n_columns == values.len() {
            return 0;
        }
        let mut best =
            if skips > 0 { brute_force(values, n_columns, row + 1, free, skips - 1) } else { i64::MIN };
        for column in 0..n_columns {
            if free[column] {
                free[column] = false;
                let rest = brute_force(values, n_columns, row + 1, free, skips);
                best = best.max(rest.saturating_add(values[row * n_columns + column]));
                free[column] = true;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn equals_brute_force(
            (n_rows, n_columns, values) in (1usize..=6, 1usize..=6).prop_flat_map(|(n, m)| {
                (Just(n), Just(m), prop::collection::vec(-20i64..50, n * m))
            })
        ) {
            let matched = best_matching(&values, n_rows, n_columns);
            let mut columns: Vec<usize> = matched.iter().flatten().copied().collect();
            prop_assert_eq!(columns.len(), n_rows.min(n_columns));
            columns.sort_unstable();
            columns.dedup();
            prop_assert_eq!(columns.len(), n_rows.min(n_columns), "a column was matched twice");
            let sum: i64 = (0..n_rows)
                .filter_map(|row| matched[row].map(|column| values[row * n_columns + column]))
                .sum();
            let skips = n_rows.saturating_sub(n_columns);
            prop_assert_eq!(sum, brute_force(&values, n_columns, 0, &mut vec![true; n_columns], skips));
        }
    }
}
