// Codes that are drawn and found again; the formulas are in compute/cpu/drawn_codes.rs.

// One of the first n_choices columns is 1, the others 0; all further ones are uniform in [-1, 1). One thread a number.
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
        u32 number = column - n_choices;
        uint4 w = philox(step, row, number / 4, key0, key1);
        u32 words[4] = {w.x, w.y, w.z, w.w};
        value = (float)(words[number % 4] >> 8) * (1.0f / 8388608.0f) - 1.0f;
    }
    z[(u64)restart * rows * columns + index] = value;
}

// Adds log q(code | output) of each row to its sums; the output becomes the gradient of -weight log q / places. One
// thread a row: rows are short.
extern "C" __global__ void code_likelihood(const float *codes, float *output, double *sums, u32 b, u32 places, u32 columns,
                                           u32 width, u32 n_choices, u32 n_numbers, float scale) {
    u32 row = blockIdx.x * blockDim.x + threadIdx.x, restart = blockIdx.y;
    if (row >= places) return;
    float *out = output + ((u64)restart * places + row) * width;
    if (row >= b) {
        for (u32 c = 0; c < width; c++) out[c] = 0.0f;
        return;
    }
    const float *code = codes + ((u64)restart * b + row) * columns;
    float most = LEAST, total = 0.0f, of_choice = 0.0f, of_numbers = 0.0f;
    for (u32 m = 0; m < n_choices; m++) most = fmaxf(most, out[m]);
    for (u32 m = 0; m < n_choices; m++) total += expf(out[m] - most);
    float log_total = most + logf(total);
    for (u32 m = 0; m < n_choices; m++) {
        float o = out[m];
        of_choice = fmaf(code[m], o - log_total, of_choice);
        out[m] = scale * (expf(o - most) / total - code[m]);
    }
    bool varied = width > n_choices + n_numbers;  // else the variance is 1
    for (u32 c = 0; c < n_numbers; c++) {
        float *mean = out + n_choices + c, *raw = mean + n_numbers;
        float given = varied ? *raw : 0.0f;
        float l = fminf(fmaxf(given, -DECODER_LOG_VARIANCE_LIMIT), DECODER_LOG_VARIANCE_LIMIT);
        float error = *mean - code[n_choices + c], weighted = error * expf(-l), squared = error * weighted;
        of_numbers -= 0.5f * (LN_TAU + l + squared);
        *mean = scale * weighted;
        if (varied) *raw = fabsf(given) < DECODER_LOG_VARIANCE_LIMIT ? 0.5f * scale * (1.0f - squared) : 0.0f;
    }
    double *own = sums + ((u64)restart * places + row) * 4;
    own[1] += (double)of_numbers;
    own[2] += (double)of_choice;
}
