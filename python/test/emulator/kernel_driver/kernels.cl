// OpenCL C that Intel's driver compiles: local memory, barriers, atomics, loops and integers.

kernel void product(global const float *a, global const float *b, global float *c, int m, int n,
                    int k) {
    local float left[8][16], right[16][16];
    int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1);
    float sum = 0;
    for (int first = 0; first < k; first += 16) {
        left[j][i] = y < m && first + i < k ? a[y * k + first + i] : 0;
        for (int row = j; row < 16; row += 8)
            right[row][i] = x < n && first + row < k ? b[(first + row) * n + x] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < 16; s++) sum = fma(left[j][s], right[s][i], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (x < n && y < m) c[y * n + x] = sum;
}

kernel void histogram(global const int *x, global int *total, int count) {
    local int bins[64];
    int me = get_local_id(0), at = get_global_id(0);
    bins[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at < count) atomic_inc(&bins[x[at] & 63]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&total[me], bins[me]);
}

kernel void group_sums(global const float *x, global float *y) {
    float sum = work_group_reduce_add(x[get_global_id(0)]);
    if (get_local_id(0) == 0) y[get_group_id(0)] = sum;
}

kernel void integers(global const uint *x, global uint *y) {
    int i = get_global_id(0), n = get_global_size(0);
    y[i] = x[i] / 7;
    y[n + i] = x[i] % 1000;
    y[2 * n + i] = popcount(x[i]);
    y[3 * n + i] = mul_hi(x[i], x[i]);
    y[4 * n + i] = rotate(x[i], 7u);
}

kernel void functions(global const float *x, global float *y) {
    int i = get_global_id(0), n = get_global_size(0);
    y[i] = exp(x[i]);
    y[n + i] = sin(x[i]);
    y[2 * n + i] = sqrt(fabs(x[i]));
    y[3 * n + i] = x[i] > 0 ? x[i] : x[i] * 0.1f;
}

kernel void collatz(global const int *x, global int *y, int count) {
    int i = get_global_id(0), steps = 0;
    if (i >= count) return;
    for (int n = x[i]; n > 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    y[i] = steps;
}
