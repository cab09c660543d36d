// Stick-breaking weights, the KL divergence of their fractions from the prior, and the gradients; the formulas are in
// cpu/stick_breaking.rs and math/double.rs. In double precision.

#define MIN_PARAMETER 1e-4
#define MAX_PARAMETER 1e4
#define MIN_DRAWN 0.01
#define MAX_DRAWN 0.99
#define SERIES_TERMS 10
#define EULER 0.57721566490153286

// psi'(x).
__device__ double trigamma(double x) {
    double below = 0.0;
    for (; x < 8.0; x += 1.0) below += 1.0 / (x * x);
    double inverse = 1.0 / x, square = inverse * inverse, tail = -691.0 / 2730.0;
    tail = tail * square + 5.0 / 66.0;
    tail = tail * square - 1.0 / 30.0;
    tail = tail * square + 1.0 / 42.0;
    tail = tail * square - 1.0 / 30.0;
    tail = tail * square + 1.0 / 6.0;
    return inverse + 0.5 * square + inverse * square * tail + below;
}

// a or b from its raw value in the head, and its derivative.
__device__ double2 stick_parameter(float raw_value) {
    double raw = raw_value, e = exp(-fabs(raw));
    double value = fmax(raw, 0.0) + log1p(e);
    if (value <= MIN_PARAMETER) return make_double2(MIN_PARAMETER, 0.0);
    if (value >= MAX_PARAMETER) return make_double2(MAX_PARAMETER, 0.0);
    return make_double2(value, raw >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e));
}

// A fraction, and the derivatives of its logarithm with respect to the head's two raw values.
struct Fraction {
    double v, for_a, for_b;
};

__device__ Fraction stick_fraction(int drawn, u64 step, u32 row, u32 key0, u32 key1, const float *head, u32 j, u32 k) {
    double2 a = stick_parameter(head[k]), b = stick_parameter(head[j + k]);
    Fraction found;
    if (drawn) {
        uint4 w = philox(step, row, k / 4, key0, key1);
        u32 word = k % 4 == 0 ? w.x : k % 4 == 1 ? w.y : k % 4 == 2 ? w.z : w.w;
        double u = MIN_DRAWN + (MAX_DRAWN - MIN_DRAWN) * (((double)(word >> 8) + 0.5) / 16777216.0);
        double log_power = log(u) / b.x, power = exp(log_power), log_v = log(1.0 - power) / a.x;
        found.v = exp(log_v);
        found.for_a = -log_v / a.x;
        found.for_b = log_power * power / (a.x * b.x * (1.0 - power));
    } else {
        double inverse = 1.0 / a.x;
        double2 of_a = ln_gamma_and_digamma(1.0 + inverse), of_b = ln_gamma_and_digamma(b.x);
        double2 of_ab = ln_gamma_and_digamma(1.0 + inverse + b.x);
        found.v = exp(log(b.x) + of_a.x + of_b.x - of_ab.x);
        found.for_a = (of_ab.y - of_a.y) * inverse * inverse;
        found.for_b = 1.0 / b.x + of_b.y - of_ab.y;
    }
    found.for_a *= a.y;
    found.for_b *= b.y;
    return found;
}

// One block per row: the fractions in parallel, then the weights by one thread.
extern "C" __global__ void stick_breaking(Keys keys, int drawn, const Clock *clock, u64 draw, const float *all_heads,
                                          float *all_weights, u32 b, u32 j) {
    extern __shared__ double stick_scratch[];
    u32 row = blockIdx.x, restart = blockIdx.y;
    u64 at = (u64)restart * b + row, step = draw + (clock ? clock->draw : 0);
    const float *head = all_heads + at * 2 * j;
    float *weights = all_weights + at * j;
    u32 key0 = keys.words[2 * restart], key1 = keys.words[2 * restart + 1];
    for (u32 k = threadIdx.x; k + 1 < j; k += blockDim.x) {
        stick_scratch[k] = stick_fraction(drawn, step, row, key0, key1, head, j, k).v;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    double left = 1.0;
    for (u32 k = 0; k + 1 < j; k++) {
        weights[k] = (float)(stick_scratch[k] * left);
        left *= 1.0 - stick_scratch[k];
    }
    weights[j - 1] = (float)left;
}

// Adds to the head's gradient. One block per row; shared memory: fractions, the length of the stick before each (then the
// gradient of the fraction's logarithm), and both derivatives of each.
extern "C" __global__ void stick_breaking_backward(Keys keys, int drawn, const Clock *clock, u64 draw,
                                                   const float *all_heads, const float *d_weights, float *d_heads,
                                                   u32 b, u32 j) {
    extern __shared__ double stick_scratch[];
    double *fractions = stick_scratch, *lefts = fractions + j, *for_a = lefts + j, *for_b = for_a + j;
    u32 row = blockIdx.x, restart = blockIdx.y;
    u64 at = (u64)restart * b + row, step = draw + (clock ? clock->draw : 0);
    const float *head = all_heads + at * 2 * j, *dw = d_weights + at * j;
    float *d_head = d_heads + at * 2 * j;
    u32 key0 = keys.words[2 * restart], key1 = keys.words[2 * restart + 1];
    for (u32 k = threadIdx.x; k + 1 < j; k += blockDim.x) {
        Fraction found = stick_fraction(drawn, step, row, key0, key1, head, j, k);
        fractions[k] = found.v;
        for_a[k] = found.for_a;
        for_b[k] = found.for_b;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double left = 1.0;
        for (u32 k = 0; k + 1 < j; k++) {
            lefts[k] = left;
            left *= 1.0 - fractions[k];
        }
        double d_left = dw[j - 1];
        for (u32 k = j - 1; k-- > 0;) {
            double v = fractions[k], d_weight = dw[k];
            lefts[k] *= v * (d_weight - d_left);
            d_left = v * d_weight + (1.0 - v) * d_left;
        }
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k + 1 < j; k += blockDim.x) {
        d_head[k] += (float)(lefts[k] * for_a[k]);
        d_head[j + k] += (float)(lefts[k] * for_b[k]);
    }
}

// Minus KL(Kumaraswamy || Beta) of a row, and the gradient of the mean KL. One block per row, one thread per fraction.
extern "C" __global__ void stick_prior(const float *all_heads, float *d_heads, double *sums, u32 b, u32 n_samples, u32 j,
                                       int dirichlet, float concentration) {
    u32 row = blockIdx.x, restart = blockIdx.y;
    u64 at = (u64)restart * b + row;
    const float *head = all_heads + at * 2 * j;
    float *d_head = d_heads + at * 2 * j;
    double total = 0.0;
    for (u32 k = threadIdx.x; k < j; k += blockDim.x) {
        if (k + 1 == j) {
            d_head[k] = d_head[j + k] = 0.0f;
            continue;
        }
        double first = dirichlet ? (double)concentration : 1.0;
        double second = dirichlet ? (double)concentration * (double)(j - 1 - k) : (double)concentration;
        double2 raw_a = stick_parameter(head[k]), raw_b = stick_parameter(head[j + k]);
        double p = raw_a.x, q = raw_b.x;
        double2 of_q = ln_gamma_and_digamma(q);
        double log_mean = -EULER - of_q.y - 1.0 / q;
        double kl = (p - first) / p * log_mean + log(p) + log(q) - (q - 1.0) / q;
        kl += ln_gamma_and_digamma(first).x + ln_gamma_and_digamma(second).x - ln_gamma_and_digamma(first + second).x;
        double for_a = first / (p * p) * log_mean + 1.0 / p;
        double for_b = (p - first) / p * (1.0 / (q * q) - trigamma(q)) + 1.0 / q - 1.0 / (q * q);
        double share = second - 1.0;
        for (int m = 1; m <= SERIES_TERMS && share != 0.0; m++) {
            double2 of_p = ln_gamma_and_digamma(m / p), of_both = ln_gamma_and_digamma(m / p + q);
            double over = 1.0 / (m + p * q), term = share * q * over * exp(of_p.x + of_q.x - of_both.x);
            kl += term;
            for_a += term * ((of_both.y - of_p.y) * m / (p * p) - q * over);
            for_b += term * (1.0 / q + of_q.y - of_both.y - p * over);
        }
        total += kl;
        d_head[k] = (float)(for_a * raw_a.y / (double)b);
        d_head[j + k] = (float)(for_b * raw_b.y / (double)b);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) sums[((u64)restart * n_samples + row) * N_TERMS + 2] -= total;
}
