// Typed tables: what the encoder sees of their rows, and log p(x|z) with trained scales. The formulas are in ops/typed.rs and
// ops/density.rs; counts are computed in double precision, because ln Gamma(k + r) - ln Gamma(r) cancels.

#define LEAST_LOG_VARIANCE -4.6f
#define LOG_MEAN_LIMIT 30.0
#define LOG_DISPERSION_LIMIT 10.0f
#define MOST_FACTORS 16.0
#define GAUSSIAN_COLUMN 0
#define COUNT_COLUMN 1
#define BERNOULLI_COLUMN 2
#define CATEGORICAL_COLUMN 3
#define NO_INDEX ~0u

struct TypedColumn {
    u32 family;
    u32 levels;  // of a category, else 1
    u32 input;
    u32 output;
    u32 scale;  // or NO_INDEX
    u32 gap;    // or NO_INDEX
    float shift;
    float factor;
    float weight;
};

__device__ __forceinline__ bool is_observed(const TypedColumn &column, float x) {
    return column.family == CATEGORICAL_COLUMN ? x >= 0.0f && x < (float)column.levels : x == x;
}

__device__ __forceinline__ void write_input(const TypedColumn &column, bool is_seen, float x, float *input) {
    if (column.gap != NO_INDEX) input[column.gap] = is_seen ? 0.0f : 1.0f;
    float *to = input + column.input;
    if (column.family == CATEGORICAL_COLUMN) {
        u32 level = is_seen ? (u32)x : column.levels;
        for (u32 k = 0; k < column.levels; k++) to[k] = k == level ? 1.0f : 0.0f;
    } else if (column.family == COUNT_COLUMN) {
        *to = is_seen ? (log1pf(fmaxf(x, 0.0f)) - column.shift) * column.factor : 0.0f;
    } else {
        *to = is_seen ? x : 0.0f;
    }
}

// What the encoder sees of the rows x [R, B, D]. One block per row: blockIdx.x of B, blockIdx.y of R.
extern "C" __global__ void typed_inputs(const TypedColumn *columns, const float *x, float *inputs, u32 d, u32 n_inputs) {
    u64 row = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        float cell = x[row * d + j];
        write_input(columns[j], is_observed(columns[j], cell), cell, inputs + row * n_inputs);
    }
}

// Hides cells from the encoder with probability threshold / 2^32.
extern "C" __global__ void hide_cells(const TypedColumn *columns, Keys keys, const Clock *clock, u64 draw, u32 threshold,
                                      float *inputs, u32 d, u32 n_inputs) {
    u32 i = blockIdx.x, restart = blockIdx.y;
    u64 step = draw + (clock ? clock->draw : 0);
    float *input = inputs + ((u64)restart * gridDim.x + i) * n_inputs;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        uint4 w = philox(step, i, j / 4, keys.words[2 * restart], keys.words[2 * restart + 1]);
        u32 word = j % 4 == 0 ? w.x : j % 4 == 1 ? w.y : j % 4 == 2 ? w.z : w.w;
        if (word < threshold) write_input(columns[j], false, 0.0f, input);
    }
}

// log1p(x row_sum / (sum of the row)) of rows of counts.
extern "C" __global__ void count_inputs(const float *x, float *inputs, u32 d, float row_sum) {
    u64 first = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * d;
    double sum = 0.0;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) sum += (double)x[first + j];
    sum = block_sum(sum);
    float factor = sum > 0.0 ? (float)(row_sum / sum) : 0.0f;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) inputs[first + j] = log1pf(x[first + j] * factor);
}

// log p of a cell and its derivatives for output and log scale.
struct Explained {
    double log_density, for_output, for_scale;
};

// ln of Gamma(r + k) / (Gamma(r) k!), and psi(r + k) - psi(r).
__device__ double2 log_coefficient(double r, double k) {
    if (k <= MOST_FACTORS && trunc(k) == k) {
        double product = 1.0, derivative = 0.0, factorial = 1.0;
        for (double i = 0.0; i < k; i += 1.0) {
            derivative = derivative * (r + i) + product;
            product *= r + i;
            factorial *= i + 1.0;
        }
        return make_double2(log(product / factorial), derivative / product);
    }
    double2 above = ln_gamma_and_digamma(r + k), below = ln_gamma_and_digamma(r);
    return make_double2(above.x - below.x - ln_gamma_and_digamma(k + 1.0).x, above.y - below.y);
}

// The logarithms of a count's mean and dispersion, within their bounds.
__device__ __forceinline__ double bounded_log_mean(double log_mean) {
    return fmin(fmax(log_mean, -LOG_MEAN_LIMIT), LOG_MEAN_LIMIT);
}

__device__ __forceinline__ double bounded_log_dispersion(float scale) {
    return fminf(fmaxf(scale, -LOG_DISPERSION_LIMIT), LOG_DISPERSION_LIMIT);
}

// The derivative for the logarithm of the mean.
__device__ __forceinline__ double count_slope(float k, double log_mean, float scale) {
    double mean = exp(bounded_log_mean(log_mean)), r = exp(bounded_log_dispersion(scale));
    return fabs(log_mean) < LOG_MEAN_LIMIT ? ((double)fmaxf(k, 0.0f) - mean) * (r / (r + mean)) : 0.0;
}

__device__ Explained explain_count(float count, double log_mean, float scale) {
    double k = fmaxf(count, 0.0f), log_r = bounded_log_dispersion(scale), r = exp(log_r);
    double bounded = bounded_log_mean(log_mean), mean = exp(bounded), surprise = log1p(mean / r);
    double2 coefficient = log_coefficient(r, k);
    double for_r = coefficient.y + (mean - k) / (r + mean) - surprise;
    Explained found;
    found.log_density = coefficient.x + k * (bounded - log_r) - (k + r) * surprise;
    found.for_output = count_slope(count, log_mean, scale);
    found.for_scale = fabsf(scale) < LOG_DISPERSION_LIMIT ? r * for_r : 0.0;
    return found;
}

// The logits of a category become the gradient of x's log probability, which is returned, times `factor`.
__device__ float explain_category(float *out, u32 levels, u32 x, float factor) {
    float most = out[0], sum = 0.0f, at = out[x];
    for (u32 k = 1; k < levels; k++) most = fmaxf(most, out[k]);
    for (u32 k = 0; k < levels; k++) sum += expf(out[k] - most);
    for (u32 k = 0; k < levels; k++) out[k] = factor * ((k == x ? 1.0f : 0.0f) - expf(out[k] - most) / sum);
    return at - most - logf(sum);
}

// log p of a cell; its output and scale become the gradient of that times `factor`.
__device__ double explain_cell(const TypedColumn &column, float x, float factor, float *output, float *scales) {
    float *out = output + column.output, scale = column.scale != NO_INDEX ? scales[column.scale] : 0.0f;
    Explained found = {0.0, 0.0, 0.0};
    if (!is_observed(column, x)) {
        for (u32 k = 0; k < column.levels; k++) out[k] = 0.0f;
    } else if (column.family == CATEGORICAL_COLUMN) {
        found.log_density = explain_category(out, column.levels, (u32)x, factor);
    } else {
        float o = *out;
        if (column.family == GAUSSIAN_COLUMN) {
            float l = fmaxf(scale, LEAST_LOG_VARIANCE), error = x - o, weighted = error * expf(-l), squared = error * weighted;
            found.log_density = -0.5f * (LN_TAU + l + squared);
            found.for_output = weighted;
            found.for_scale = scale > LEAST_LOG_VARIANCE ? 0.5f * (squared - 1.0f) : 0.0f;
        } else if (column.family == COUNT_COLUMN) {
            found = explain_count(x, (double)o / (double)column.factor + (double)column.shift, scale);
            found.for_output /= (double)column.factor;
        } else {
            float e = expf(-fabsf(o));
            found.log_density = fmaf(x, o, -(fmaxf(o, 0.0f) + log1pf(e)));
            found.for_output = x - (o >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e));
        }
        *out = (float)((double)factor * found.for_output);
    }
    if (column.scale != NO_INDEX) scales[column.scale] = (float)((double)factor * found.for_scale);
    return found.log_density;
}

// Adds log p(x|z) of each row to its sum; output and scales become the gradients of -log p(x|z) / (B L). One block per sample,
// one thread per column at a time.
extern "C" __global__ void typed_likelihood(const TypedColumn *columns, const float *x, float *output, float *scales,
                                            double *sums, u32 b, u32 x_rows, u32 n_samples, u32 d, u32 n_outputs,
                                            u32 n_scales) {
    after_previous();
    u32 sample_index = blockIdx.x, restart = blockIdx.y;
    u64 row = (u64)restart * n_samples + sample_index;
    const float *target = x + ((u64)restart * x_rows + sample_index % b) * d;
    double total = 0.0;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        float weight = columns[j].weight, factor = -weight / (float)n_samples;
        total += weight * explain_cell(columns[j], target[j], factor, output + row * n_outputs, scales + row * n_scales);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) sums[row * N_TERMS] += total / (double)(n_samples / b);
}

// The same for a table of counts, whose means are (sum of the row) softmax(output).
extern "C" __global__ void count_likelihood(const float *x, float *output, float *scales, double *sums, u32 b, u32 x_rows,
                                            u32 n_samples, u32 d) {
    after_previous();
    u32 sample_index = blockIdx.x, restart = blockIdx.y;
    u64 row = (u64)restart * n_samples + sample_index;
    const float *target = x + ((u64)restart * x_rows + sample_index % b) * d;
    float *out = output + row * d, *log_scales = scales + row * d, most = NEG_INFINITY;
    double sum = 0.0, powers = 0.0, slopes = 0.0, total = 0.0;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        sum += (double)target[j];
        most = fmaxf(most, out[j]);
    }
    sum = block_sum(sum);
    most = block_max(most);
    if (!(sum > 0.0)) {
        for (u32 j = threadIdx.x; j < d; j += blockDim.x) out[j] = log_scales[j] = 0.0f;
        return;
    }
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) powers += exp((double)out[j] - (double)most);
    double log_factor = log(sum) - ((double)most + log(block_sum(powers)));
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        slopes += count_slope(target[j], (double)out[j] + log_factor, log_scales[j]);
    }
    slopes = block_sum(slopes);
    double factor = -1.0 / (double)n_samples;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        double log_mean = (double)out[j] + log_factor;
        Explained found = explain_count(target[j], log_mean, log_scales[j]);
        total += found.log_density;
        out[j] = (float)(factor * (found.for_output - exp(log_mean) / sum * slopes));
        log_scales[j] = (float)(factor * found.for_scale);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) sums[row * N_TERMS] += total / (double)(n_samples / b);
}
