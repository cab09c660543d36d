// Latent codes with a categorical part and a continuous part; the formulas are in cpu/codes.rs.

// Softmax of the first n columns of each row, in place. One thread per row: rows are short.
extern "C" __global__ void softmax(float *x, u32 rows, u32 columns, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float *row = x + (u64)i * columns, largest = NEG_INFINITY, total = 0.0f;
    for (u32 m = 0; m < n; m++) largest = fmaxf(largest, row[m]);
    for (u32 m = 0; m < n; m++) total += row[m] = expf(row[m] - largest);
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

// Copies n_rows rows and n columns of each restart of x [R, rows_x, columns_x] to y. One thread per element; `all` is
// R n_rows.
extern "C" __global__ void copy_block(const float *x, float *y, u32 all, u32 n_rows, u32 n, u32 rows_x, u32 columns_x,
                                      u32 row_x, u32 column_x, u32 rows_y, u32 columns_y, u32 row_y, u32 column_y) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)all * n) return;
    u64 row_index = index / n, restart = row_index / n_rows, row = row_index % n_rows;
    u32 column = index % n;
    u64 to = (restart * rows_y + row_y + row) * columns_y + column_y + column;
    y[to] = x[(restart * rows_x + row_x + row) * columns_x + column_x + column];
}

// The first n_choices columns are one-hot; all further ones are uniform in [-1, 1). One thread per element.
extern "C" __global__ void draw_codes(Keys keys, const Clock *clock, u64 draw, float *z, u32 rows, u32 columns,
                                      u32 n_choices) {
    u32 index = blockIdx.x * blockDim.x + threadIdx.x, restart = blockIdx.y;
    if (index >= rows * columns) return;
    u32 row = index / columns, column = index % columns;
    u64 step = draw + (clock ? clock->draw : 0);
    u32 key0 = keys.words[2 * restart], key1 = keys.words[2 * restart + 1];
    float value;
    if (column < n_choices) {
        value = __umulhi(philox(step, row, 0xffffffffu, key0, key1).x, n_choices) == column ? 1.0f : 0.0f;
    } else {
        u32 i = column - n_choices;
        uint4 w = philox(step, row, i / 4, key0, key1);
        u32 words[4] = {w.x, w.y, w.z, w.w};
        value = (float)(words[i % 4] >> 8) * (1.0f / 8388608.0f) - 1.0f;
    }
    z[(u64)restart * rows * columns + index] = value;
}

// Adds log q(code | output) of each row to its sums; the output becomes the gradient of -weight log q / n_rows. One
// thread per row: rows are short.
extern "C" __global__ void code_likelihood(const float *codes, float *output, double *sums, u32 b, u32 n_rows, u32 columns,
                                           u32 width, u32 n_choices, u32 n_continuous, float scale) {
    u32 row = blockIdx.x * blockDim.x + threadIdx.x, restart = blockIdx.y;
    if (row >= n_rows) return;
    float *out = output + ((u64)restart * n_rows + row) * width;
    if (row >= b) {
        for (u32 c = 0; c < width; c++) out[c] = 0.0f;
        return;
    }
    const float *code = codes + ((u64)restart * b + row) * columns;
    float largest = NEG_INFINITY, total = 0.0f, categorical = 0.0f, continuous = 0.0f;
    for (u32 m = 0; m < n_choices; m++) largest = fmaxf(largest, out[m]);
    for (u32 m = 0; m < n_choices; m++) total += expf(out[m] - largest);
    float log_total = largest + logf(total);
    for (u32 m = 0; m < n_choices; m++) {
        float o = out[m];
        categorical = fmaf(code[m], o - log_total, categorical);
        out[m] = scale * (expf(o - largest) / total - code[m]);
    }
    bool has_variance = width > n_choices + n_continuous;  // else the variance is 1
    for (u32 c = 0; c < n_continuous; c++) {
        float *mean = out + n_choices + c, *raw = mean + n_continuous;
        float given = has_variance ? *raw : 0.0f;
        float l = fminf(fmaxf(given, -DECODER_LOG_VARIANCE_LIMIT), DECODER_LOG_VARIANCE_LIMIT);
        float error = *mean - code[n_choices + c], weighted = error * expf(-l), squared = error * weighted;
        continuous -= 0.5f * (LN_TAU + l + squared);
        *mean = scale * weighted;
        if (has_variance) *raw = fabsf(given) < DECODER_LOG_VARIANCE_LIMIT ? 0.5f * scale * (1.0f - squared) : 0.0f;
    }
    double *row_sums = sums + ((u64)restart * n_rows + row) * N_TERMS;
    row_sums[1] += (double)continuous;
    row_sums[2] += (double)categorical;
}
