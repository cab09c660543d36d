// Codes that are partly a choice of one of many; the formulas are in compute/cpu/codes.rs.

// The first n columns of each row become their softmax. One thread a row: rows are short.
extern "C" __global__ void softmax(float *x, u32 rows, u32 columns, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float *row = x + (u64)i * columns, most = LEAST, total = 0.0f;
    for (u32 m = 0; m < n; m++) most = fmaxf(most, row[m]);
    for (u32 m = 0; m < n; m++) total += row[m] = expf(row[m] - most);
    for (u32 m = 0; m < n; m++) row[m] /= total;
}

extern "C" __global__ void softmax_backward(const float *y, float *dy, u32 rows, u32 columns, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const float *row = y + (u64)i * columns;
    float *gradient = dy + (u64)i * columns, mean = 0.0f;
    for (u32 m = 0; m < n; m++) mean = fmaf(row[m], gradient[m], mean);
    for (u32 m = 0; m < n; m++) gradient[m] = row[m] * (gradient[m] - mean);
}

// n_rows rows and n columns of each restart of x [R, rows_x, columns_x] to those of y. One thread a number; `all` is
// R n_rows.
extern "C" __global__ void copy_block(const float *x, float *y, u32 all, u32 n_rows, u32 n, u32 rows_x, u32 columns_x,
                                      u32 row_x, u32 column_x, u32 rows_y, u32 columns_y, u32 row_y, u32 column_y) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)all * n) return;
    u64 place = index / n, restart = place / n_rows, row = place % n_rows;
    u32 column = index % n;
    u64 to = (restart * rows_y + row_y + row) * columns_y + column_y + column;
    y[to] = x[(restart * rows_x + row_x + row) * columns_x + column_x + column];
}
