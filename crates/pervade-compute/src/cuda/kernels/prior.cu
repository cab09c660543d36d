// The mixture prior's part of the ELBO and its gradient; the formulas are in cpu/prior.rs.

// Tables of a restart: log weights plus normalising constants [C], log weights [C], precisions [C, J].
extern "C" __global__ void prior_tables(const float *values, u64 stride, u64 logits_at, u64 log_variances_at, u32 c,
                                        u32 j, float *tables) {
    u32 restart = blockIdx.x;
    const float *logits = values + restart * stride + logits_at;
    const float *log_variances = values + restart * stride + log_variances_at;
    float *constants = tables + (u64)restart * c * (2 + j), *log_weights = constants + c, *precisions = log_weights + c;
    float largest = NEG_INFINITY;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) largest = fmaxf(largest, logits[m]);
    largest = block_max(largest);
    float total = 0.0f;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) total += expf(logits[m] - largest);
    float log_total = largest + logf(block_sum(total));
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        float weight = logits[m] - log_total, constant = weight;
        for (u32 k = 0; k < j; k++) {
            float l = clamp_log_variance(log_variances[(u64)m * j + k]);
            constant -= 0.5f * (LN_TAU + l);
            precisions[(u64)m * j + k] = expf(-l);
        }
        log_weights[m] = weight;
        constants[m] = constant;
    }
}

// l_m at `point` with the extra variance `extra`, zero if null.
__device__ __forceinline__ float log_joint_at(const float *tables, const float *means, u32 c, u32 j, u32 m,
                                              const float *point, const float *extra) {
    const float *precisions = tables + 2 * c + (u64)m * j;
    float l = tables[m];
    for (u32 k = 0; k < j; k++) {
        float difference = point[k] - means[(u64)m * j + k];
        l -= 0.5f * fmaf(difference, difference, extra ? extra[k] : 0.0f) * precisions[k];
    }
    return l;
}

// One thread per row and component.
extern "C" __global__ void log_joint(const float *values, u64 stride, u64 means_at, const float *tables, const float *head,
                                     float *out, u32 b, u32 c, u32 j, int exact) {
    u32 restart = blockIdx.y;
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)b * c) return;
    u32 i = index / c, m = index % c;
    const float *row = head + ((u64)restart * b + i) * 2 * j;
    const float *means = values + restart * stride + means_at + (u64)m * j;
    const float *table = tables + (u64)restart * c * (2 + j), *precisions = table + 2 * c + (u64)m * j;
    float l = table[m];
    for (u32 k = 0; k < j; k++) {
        float difference = row[k] - means[k], v = exact ? expf(clamp_log_variance(row[j + k])) : 0.0f;
        l -= 0.5f * fmaf(difference, difference, v) * precisions[k];
    }
    out[((u64)restart * b + i) * c + m] = l;
}

// Terms of a row, d loss / d l for each component, and the gradients of the row's head and samples.
// One block per row. `weights` [R, B, C] is for the head, `weights_z` [R, L B, C] for the samples.
extern "C" __global__ void prior_rows(const float *values, u64 stride, u64 means_at, const float *all_tables,
                                      const float *head, const float *z, float *weights, float *weights_z, float *d_head,
                                      float *dz, double *sums, u32 b, u32 head_rows, u32 n_samples, u32 c, u32 j, int exact) {
    extern __shared__ float prior_scratch[];
    u32 i = blockIdx.x, restart = blockIdx.y, samples = n_samples / b;
    float *variances = prior_scratch, *log_joints = prior_scratch + j, *gammas = log_joints + c, *w = gammas + c;
    const float *row = head + ((u64)restart * head_rows + i) * 2 * j;
    const float *means = values + restart * stride + means_at, *tables = all_tables + (u64)restart * c * (2 + j);
    const float *log_weights = tables + c, *precisions = tables + 2 * c;
    float *to_head = d_head + ((u64)restart * head_rows + i) * 2 * j;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    for (u32 k = threadIdx.x; k < j; k += blockDim.x) variances[k] = expf(clamp_log_variance(row[j + k]));
    __syncthreads();
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        log_joints[m] = log_joint_at(tables, means, c, j, m, row, variances);
        w[m] = 0.0f;
    }
    float scale = 1.0f / (float)n_samples;
    double latent = 0.0, cluster = 0.0;
    for (u32 sample = 0; sample < samples; sample++) {
        u32 index = sample * b + i;
        const float *at = z + ((u64)restart * n_samples + index) * j;
        float *to_z = dz + ((u64)restart * n_samples + index) * j;
        // gamma: the softmax of l at (mu~, sigma~^2), or at the sampled z.
        float largest = NEG_INFINITY;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
            gammas[m] = exact ? log_joints[m] : log_joint_at(tables, means, c, j, m, at, nullptr);
            largest = fmaxf(largest, gammas[m]);
        }
        largest = block_max(largest);
        float total = 0.0f;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) total += gammas[m] = expf(gammas[m] - largest);
        float inverse = 1.0f / block_sum(total);
        float mean_u = 0.0f;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
            float g = gammas[m] *= inverse;
            w[m] -= scale * g;
            if (g > 1.17549435e-38f) {
                float log_g = logf(g);
                latent += g * (log_joints[m] - log_weights[m]);
                cluster += g * (log_weights[m] - log_g);
                mean_u += g * (log_joints[m] - log_g);
            }
        }
        if (exact) {
            for (u32 k = threadIdx.x; k < j; k += blockDim.x) to_z[k] = 0.0f;
            continue;
        }
        // Gradient through gamma: d/dt_m of sum gamma (l - log gamma) is gamma_m (u_m - mean of u).
        mean_u = block_sum(mean_u);
        float *wz = weights_z + ((u64)restart * n_samples + index) * c;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
            float g = gammas[m];
            gammas[m] = -scale * g * ((g > 1.17549435e-38f ? log_joints[m] - logf(g) : 0.0f) - mean_u);
            wz[m] = gammas[m];
        }
        __syncthreads();
        for (u32 k = warp; k < j; k += n_warps) {
            float d_z = 0.0f;
            for (u32 m = lane; m < c; m += 32) {
                d_z -= gammas[m] * precisions[(u64)m * j + k] * (at[k] - means[(u64)m * j + k]);
            }
            d_z = warp_sum(d_z);
            if (lane == 0) to_z[k] = d_z;
        }
        __syncthreads();
    }
    latent = block_sum(latent) / samples;
    cluster = block_sum(cluster) / samples;
    double entropy = 0.0;
    for (u32 k = 0; k < j; k++) entropy += 0.5f * (1.0f + LN_TAU + clamp_log_variance(row[j + k]));
    if (threadIdx.x == 0) {
        double *sum = sums + ((u64)restart * n_samples + i) * N_TERMS;
        sum[1] += latent, sum[2] += cluster, sum[3] += entropy;
    }
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) weights[((u64)restart * b + i) * c + m] = w[m];
    for (u32 k = warp; k < j; k += n_warps) {
        float d_mean = 0.0f, d_variance = 0.0f;
        for (u32 m = lane; m < c; m += 32) {
            float weighted = w[m] * precisions[(u64)m * j + k];
            d_mean -= weighted * (row[k] - means[(u64)m * j + k]);
            d_variance -= weighted;
        }
        d_mean = warp_sum(d_mean);
        d_variance = warp_sum(d_variance);
        if (lane == 0) {
            to_head[k] = d_mean;
            to_head[j + k] = inside(row[j + k]) ? 0.5f * variances[k] * d_variance - 0.5f / (float)b : 0.0f;
        }
    }
}

// The mixture's gradient: one block per component, one warp per latent column.
extern "C" __global__ void prior_gradients(const float *values, float *gradients, u64 stride, u64 logits_at, u64 means_at,
                                           u64 log_variances_at, const float *all_tables, const float *head,
                                           const float *z, const float *weights, const float *weights_z, u32 b,
                                           u32 head_rows, u32 n_samples, u32 c, u32 j, int exact) {
    u32 m = blockIdx.x, restart = blockIdx.y;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    const float *tables = all_tables + (u64)restart * c * (2 + j), *precisions = tables + 2 * c + (u64)m * j;
    const float *means = values + restart * stride + means_at + (u64)m * j;
    const float *log_variances = values + restart * stride + log_variances_at + (u64)m * j;
    float *to = gradients + restart * stride;
    for (u32 k = warp; k < j; k += n_warps) {
        float d_mean = 0.0f, d_variance = 0.0f, all = 0.0f;
        for (u32 i = lane; i < b; i += 32) {
            u64 at = (u64)restart * head_rows + i;
            float w = weights[((u64)restart * b + i) * c + m], difference = head[at * 2 * j + k] - means[k];
            float v = expf(clamp_log_variance(head[at * 2 * j + j + k])), weighted = w * precisions[k];
            d_mean = fmaf(weighted, difference, d_mean);
            d_variance += 0.5f * fmaf(fmaf(difference, difference, v), weighted, -w);
            all += w;
        }
        for (u32 sample = lane; sample < n_samples && !exact; sample += 32) {
            u64 at = (u64)restart * n_samples + sample;
            float w = weights_z[at * c + m], difference = z[at * j + k] - means[k], weighted = w * precisions[k];
            d_mean = fmaf(weighted, difference, d_mean);
            d_variance += 0.5f * fmaf(difference * difference, weighted, -w);
            all += w;
        }
        d_mean = warp_sum(d_mean);
        d_variance = warp_sum(d_variance);
        all = warp_sum(all);
        if (lane == 0) {
            to[means_at + (u64)m * j + k] = d_mean;
            to[log_variances_at + (u64)m * j + k] = inside(log_variances[k]) ? d_variance : 0.0f;
            // Softmax: d logit_m = d log w_m - w_m times the sum of all d log w, which is -1.
            if (k == 0) to[logits_at + m] = all + expf(tables[c + m]);
        }
    }
}
