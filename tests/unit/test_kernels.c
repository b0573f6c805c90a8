// SPDX-License-Identifier: GPL-3.0-or-later
/* The cards' efficiencies against the kernel timings that they were fitted to, where these are at
 * hand: the mean error by operator and part is no worse than what the fit reached. */
#include "cards.h"

#include <math.h>

#include "cost/operators.h"

static const char *const PARTS[][2] = {{"a100_sxm", "a100-80-sxm"}, {"h100_sxm", "h100-sxm"},
                                       {"h200_sxm", "h200-sxm"},    {"b200_sxm", "b200-sxm"},
                                       {"b300_sxm", "b300-sxm"},    {"gb200", "gb200"}};
#define N_PARTS DS_ARRAY_LEN(PARTS)

typedef struct errors { /* of one operator on one part, by its name in the table of what the fit reached */
  char name[24];
  int part;
  int n;
  double sum;
} errors;
static errors found[128];
static int n_found;
static ds_run runs[N_PARTS];

static void count(int part, const char *name, double model_s, double us) {
  int i = 0;
  while (i < n_found && (found[i].part != part || strcmp(found[i].name, name) != 0)) i++;
  if (i == n_found) {
    cr_assert_lt(n_found, 128);
    found[n_found] = (errors){.part = part};
    snprintf(found[n_found++].name, sizeof found[0].name, "%s", name);
  }
  found[i].n++;
  found[i].sum += fabs(model_s * 1e6 / us - 1);
}

static FILE *open_table(const char *name) {
  const char *folder = getenv("DRYSERVE_SHARED");
  char path[512];
  snprintf(path, sizeof path, "%s/data/kernels/%s", folder != NULL ? folder : "../shared", name);
  return fopen(path, "r");
}

/* One row of a table into cells; the part's index, or -1 for a part that is not checked. */
static int next_row(FILE *f, char *line, size_t cap, char *cell[], int n_cells, bool *end) {
  *end = fgets(line, (int)cap, f) == NULL;
  if (*end) return -1;
  line[strcspn(line, "\r\n")] = '\0';
  int n = 0;
  for (char *at = line; at != NULL && n < n_cells; n++) {
    cell[n] = at;
    at = strchr(at, ',');
    if (at != NULL) *at++ = '\0';
  }
  if (n < n_cells) return -1;
  for (size_t i = 0; i < N_PARTS; i++)
    if (strcmp(cell[0], PARTS[i][0]) == 0) return (int)i;
  return -1;
}

#define EACH_ROW(table, n_cells)                                                                   \
  FILE *f = open_table(table);                                                                     \
  cr_assert_not_null(f);                                                                           \
  char line[512], *c[n_cells];                                                                     \
  for (bool end = false; !end;)                                                                    \
    for (int part = next_row(f, line, sizeof line, c, n_cells, &end); part >= 0 && !end; part = -1)

static void products(void) {
  static const struct {
    const char *dtype;
    ds_format format;
  } formats[] = {{"bfloat16", DS_FMT_BF16}, {"fp8", DS_FMT_FP8},  {"fp8_block", DS_FMT_FP8},
                 {"nvfp4", DS_FMT_NVFP4},   {"sq", DS_FMT_INT8}, {"int4_wo", DS_FMT_INT4}};
  ds_gemm bound[N_PARTS][DS_ARRAY_LEN(formats)];
  for (size_t i = 0; i < N_PARTS; i++)
    for (size_t k = 0; k < DS_ARRAY_LEN(formats); k++)
      bound[i][k] = ds_gemm_bind(&runs[i].pool.hw, formats[k].format, false);
  EACH_ROW("gemm.csv", 7) {
    for (size_t k = 0; k < DS_ARRAY_LEN(formats); k++) {
      if (strcmp(c[2], formats[k].dtype) != 0) continue;
      char name[24];
      snprintf(name, sizeof name, "gemm %s", c[2]);
      count(part, name, ds_gemm_time(&bound[part][k], atof(c[3]), atof(c[4]), atof(c[5])).s, atof(c[6]));
    }
  }
  fclose(f);
}

static void decode_attention(void) {
  EACH_ROW("attn_decode.csv", 11) {
    bool narrow = strcmp(c[3], "fp8") == 0;
    if (!narrow && strcmp(c[3], "bfloat16") != 0) continue;
    double b = atof(c[4]), ctx = atof(c[5]), window = atof(c[9]);
    ds_operators o = {.heads = atof(c[6]), .kv_heads = atof(c[7]), .head_dim = atof(c[8]),
                      .kv_bytes = narrow ? 1 : 2};
    ds_attention_bind(&runs[part].pool.hw, false, false, &o);
    if (window > 0 && ctx > window) ctx = window;
    count(part, narrow ? "attn_decode fp8" : "attn_decode bflo", ds_attn_decode_s(&o.decode, b, b * ctx),
          atof(c[10]));
  }
  fclose(f);
}

static void prefill_attention(void) {
  EACH_ROW("attn_prefill.csv", 12) {
    if (strcmp(c[2], "bfloat16") != 0 || strcmp(c[3], "bfloat16") != 0) continue;
    double b = atof(c[4]), s = atof(c[5]), window = atof(c[10]);
    ds_operators o = {.heads = atof(c[7]), .kv_heads = atof(c[8]), .head_dim = atof(c[9]), .kv_bytes = 2};
    ds_attention_bind(&runs[part].pool.hw, false, false, &o);
    double t = ds_attn_prefill_time(&o.prefill, b * s, b * ds_attention_pairs(s, 0, window, false),
                                    b * s, b * ceil(s / 128)).s;
    count(part, "attn_prefill", t, atof(c[11]));
  }
  fclose(f);
}

static void latent_decode(void) {
  EACH_ROW("mla.csv", 9) {
    if (strcmp(c[2], "generation") != 0 || strcmp(c[3], "bfloat16") != 0 || strcmp(c[1], "vllm") == 0)
      continue;
    double b = atof(c[5]), ctx = atof(c[6]) + atof(c[7]);
    ds_operators o = {.heads = atof(c[4]), .kv_lora = 512, .qk_rope = 64, .kv_bytes = 2};
    ds_latent_bind(&runs[part].pool.hw, DS_FMT_BF16, false, &o);
    o.decode.t0_s = runs[part].pool.hw.latent_kv16.t0_s; /* without the products around it */
    o.decode.per_seq_s = 0;
    count(part, "mla_decode", ds_attn_decode_s(&o.decode, b, b * ctx), atof(c[8]));
  }
  fclose(f);
}

static void experts(void) {
  static const struct {
    const char *dtype;
    ds_format format;
  } formats[] = {{"bfloat16", DS_FMT_BF16}, {"fp8_block", DS_FMT_FP8}, {"fp8", DS_FMT_FP8},
                 {"nvfp4", DS_FMT_NVFP4},   {"w4a16_mxfp4", DS_FMT_MXFP4}};
  EACH_ROW("moe.csv", 13) {
    if (strcmp(c[4], "balanced") != 0) continue;
    for (size_t k = 0; k < DS_ARRAY_LEN(formats); k++) {
      if (strcmp(c[2], formats[k].dtype) != 0) continue;
      ds_run run = runs[part];
      run.expert_weights = formats[k].format;
      run.pool.redundant_experts = 1; /* balanced */
      run.pool.engine.expert_rho = 1;
      run.model = (ds_model){.layers = 1, .hidden = atoi(c[6]), .expert_ffn = atoi(c[7]),
                             .top_k = atoi(c[8]), .experts = atoi(c[9])};
      run.pool.expert_parallel = atoi(c[11]);
      run.pool.tensor_parallel = atoi(c[10]) * run.pool.expert_parallel;
      ds_moe m = ds_moe_bind(&run, false);
      char name[24];
      snprintf(name, sizeof name, "moe %s", c[2]);
      count(part, name, ds_moe_time(&m, atof(c[5])).s, atof(c[12]));
    }
  }
  fclose(f);
}

static void reductions(void) {
  EACH_ROW("collectives.csv", 6) {
    if (strcmp(c[2], "all_reduce") != 0 || strcmp(c[1], "nccl") == 0) continue;
    ds_hw hw = runs[part].pool.hw;
    hw.scale_up_devices = 0;
    ds_allreduce a = ds_allreduce_bind(&hw, atoi(c[3]));
    count(part, "all_reduce", ds_allreduce_s(&a, atof(c[4])), atof(c[5]));
  }
  fclose(f);
}

Test(kernels, errors_are_what_the_fit_reached) {
  FILE *f = open_table("check_profiles_expected.txt");
  if (f == NULL) cr_skip_test("no kernel timings");
  for (size_t i = 0; i < N_PARTS; i++) {
    runs[i] = run_of("llama-3.1-8b", PARTS[i][1], "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
    runs[i].pool.hw.sustained_clock = 1; /* short runs on cool parts */
  }
  products();
  decode_attention();
  prefill_attention();
  latent_decode();
  experts();
  reductions();
  char line[256];
  int checked = 0;
  while (fgets(line, sizeof line, f) != NULL) {
    char part[24], name[32];
    double mape;
    int n;
    char *at = strstr(line, " n ");
    if (at == NULL || sscanf(line, "%23s", part) != 1 || sscanf(at, " n %d MAPE %lf", &n, &mape) != 2) continue;
    const char *from = line + strspn(line + strlen(part), " ") + strlen(part);
    snprintf(name, sizeof name, "%.*s", (int)(at - from), from);
    for (size_t e = strlen(name); e > 0 && name[e - 1] == ' '; e--) name[e - 1] = '\0';
    for (int i = 0; i < n_found; i++) {
      if (strcmp(PARTS[found[i].part][0], part) != 0 || strcmp(found[i].name, name) != 0) continue;
      double got = found[i].sum / found[i].n * 100;
      cr_assert_eq(found[i].n, n, "%s %s: %d timings, expected %d", part, name, found[i].n, n);
      cr_assert_leq(got, mape + 0.5, "%s %s: mean error %.2f %%, expected %.1f %%", part, name, got, mape);
      checked++;
    }
  }
  fclose(f);
  cr_log_info("%d operators on %zu parts", checked, N_PARTS);
  cr_assert_geq(checked, 60);
}

/* What gathering tokens costs, from the all-reduce's constants alone, against NCCL's all-gather and reduce-scatter of a
 * megabyte and more: half an all-reduce in two steps each. */
Test(kernels, gathers_are_halves_of_an_all_reduce) {
  static double error[4096];
  int n = 0, near = 0;
  FILE *there = open_table("collectives.csv");
  if (there == NULL) cr_skip_test("no timings");
  fclose(there);
  for (size_t i = 0; i < N_PARTS; i++) card_read(DS_CARD_HARDWARE, PARTS[i][1], &runs[i].pool.hw);
  EACH_ROW("collectives.csv", 6) {
    bool half = strcmp(c[2], "all_gather") == 0 || strcmp(c[2], "reduce_scatter") == 0;
    double bytes = atof(c[4]);
    if (!half || strcmp(c[1], "nccl") != 0 || bytes < 1e6) continue;
    ds_hw hw = runs[part].pool.hw;
    hw.scale_up_devices = 0;
    ds_allreduce a = ds_allreduce_bind(&hw, atoi(c[3]));
    double got = a.two_shot_s + bytes * a.two_shot_per_byte_s / 2;
    error[n] = fabs(got * 1e6 / atof(c[5]) - 1);
    near += error[n++] < 0.2;
  }
  fclose(f);
  cr_assert_gt(n, 100);
  cr_log_info("%d of %d within 20 %%", near, n);
  cr_assert_geq(near, n / 2);
}
