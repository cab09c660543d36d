// The neighbour term and its gradient; the formulas are in cpu/neighbour_term.rs.

#define WRONG_NEIGHBOURS 1e-6f

// One block per pair: row i of B and its neighbour, row B + i. `weights` [R, 2B, C] become d loss / d l.
extern "C" __global__ void neighbour_rows(const float *values, u64 stride, u64 means_at, const float *all_tables,
                                          const float *all_groups, const float *head, float *weights, float *d_head,
                                          double *sums, u32 b, u32 head_rows, u32 n_samples, u32 c, u32 j, u32 n_clusters,
                                          float weight) {
    extern __shared__ float scratch[];
    u32 i = blockIdx.x, restart = blockIdx.y;
    const float *means = values + restart * stride + means_at, *tables = all_tables + (u64)restart * c * (2 + j);
    const float *precisions = tables + 2 * c, *groups = all_groups + (u64)restart * c;
    float *posteriors = scratch, *clusters = scratch + 2 * c;
    for (u32 side = 0; side < 2; side++) {
        const float *row = head + ((u64)restart * head_rows + side * b + i) * 2 * j;
        float *r = posteriors + side * c;
        float most = NEG_INFINITY;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
            r[m] = log_joint_at(tables, means, c, j, m, row, nullptr);
            most = fmaxf(most, r[m]);
        }
        most = block_max(most);
        float total = 0.0f;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) total += r[m] = expf(r[m] - most);
        float inverse = 1.0f / block_sum(total);
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) r[m] *= inverse;
    }
    __syncthreads();
    float agreement = 0.0f;
    for (u32 k = threadIdx.x; k < n_clusters; k += blockDim.x) {
        float q = 0.0f, p = 0.0f;
        for (u32 m = 0; m < c; m++) {
            if ((u32)groups[m] == k) q += posteriors[m], p += posteriors[c + m];
        }
        clusters[k] = q, clusters[n_clusters + k] = p;
        agreement += q * p;
    }
    // Also makes the clusters visible to all threads.
    agreement = block_sum(agreement);
    float likely = WRONG_NEIGHBOURS + agreement, factor = -weight / (float)b / likely;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    for (u32 side = 0; side < 2; side++) {
        u64 at = (u64)restart * head_rows + side * b + i;
        const float *row = head + at * 2 * j, *others = clusters + (1 - side) * n_clusters;
        float *w = posteriors + side * c, *to_head = d_head + at * 2 * j;
        for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
            w[m] = factor * w[m] * (others[(u32)groups[m]] - agreement);
            weights[((u64)restart * 2 * b + side * b + i) * c + m] = w[m];
        }
        __syncthreads();
        for (u32 k = warp; k < j; k += n_warps) {
            float pull = 0.0f;
            for (u32 m = lane; m < c; m += 32) {
                pull -= w[m] * precisions[(u64)m * j + k] * (row[k] - means[(u64)m * j + k]);
            }
            pull = warp_sum(pull);
            if (lane == 0) {
                to_head[k] = side == 0 ? to_head[k] + pull : pull;
                if (side == 1) to_head[j + k] = 0.0f;
            }
        }
    }
    if (threadIdx.x == 0) sums[((u64)restart * n_samples + i) * N_TERMS + 4] += (double)(weight * logf(likely));
}

// Adds to the mixture's gradient: one block per component, one warp per latent column.
extern "C" __global__ void neighbour_gradients(const float *values, float *gradients, u64 stride, u64 logits_at,
                                               u64 means_at, u64 log_variances_at, const float *all_tables,
                                               const float *head, const float *weights, u32 b, u32 head_rows, u32 c,
                                               u32 j) {
    u32 m = blockIdx.x, restart = blockIdx.y;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    const float *precisions = all_tables + (u64)restart * c * (2 + j) + 2 * c + (u64)m * j;
    const float *means = values + restart * stride + means_at + (u64)m * j;
    const float *log_variances = values + restart * stride + log_variances_at + (u64)m * j;
    float *to = gradients + restart * stride;
    for (u32 k = warp; k < j; k += n_warps) {
        float pull = 0.0f, widening = 0.0f, all = 0.0f;
        for (u32 i = lane; i < 2 * b; i += 32) {
            float w = weights[((u64)restart * 2 * b + i) * c + m];
            float difference = head[((u64)restart * head_rows + i) * 2 * j + k] - means[k], weighted = w * precisions[k];
            pull = fmaf(weighted, difference, pull);
            widening += 0.5f * fmaf(difference * difference, weighted, -w);
            all += w;
        }
        pull = warp_sum(pull);
        widening = warp_sum(widening);
        all = warp_sum(all);
        if (lane == 0) {
            to[means_at + (u64)m * j + k] += pull;
            if (inside(log_variances[k])) to[log_variances_at + (u64)m * j + k] += widening;
            // A row's weights add up to zero: no share of the whole to subtract.
            if (k == 0) to[logits_at + m] += all;
        }
    }
}
