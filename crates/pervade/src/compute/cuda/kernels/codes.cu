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

// Columns first_x.. of all rows of x [R, rows_x, columns_x] to row and column first of y. One thread a number.
extern "C" __global__ void copy_columns(const float *x, float *y, u32 rows, u32 rows_x, u32 columns_x, u32 first_x, u32 n,
                                        u32 rows_y, u32 columns_y, u32 first_row, u32 first_column) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)rows * n) return;
    u64 place = index / n, restart = place / rows_x, row = first_row + place % rows_x;
    u32 column = index % n;
    y[(restart * rows_y + row) * columns_y + first_column + column] = x[place * columns_x + first_x + column];
}
