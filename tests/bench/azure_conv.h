// SPDX-License-Identifier: GPL-3.0-or-later
/* The token lengths of Azure's public conversation trace of 16 November 2023, as points of the
 * inverse distribution function (probability, tokens; straight lines between). Percentiles by
 * linear interpolation over the 19,366 rows of AzureLLMInferenceTrace_conv.csv
 * (github.com/Azure/AzurePublicDataset at b469a113, CC-BY-4.0; Patel et al., "Splitwise: Efficient
 * generative LLM inference using phase splitting", ISCA 2024). The two are nearly independent there
 * (correlation of the logarithms 0.09), and are drawn so. */
#ifndef DS_TESTS_AZURE_CONV_H
#define DS_TESTS_AZURE_CONV_H

#include "base/dist.h"

#define AZURE_CONV_RATE_PER_S 5.53 /* mean over its hour: 19,366 in 3,501.7 s */

static const ds_quantile azure_conv_input[] = {
    {0.0, 2},     {0.01, 29},   {0.05, 181},  {0.10, 207},   {0.20, 387},   {0.30, 403},
    {0.40, 703},  {0.45, 984},  {0.50, 1020}, {0.55, 1045},  {0.60, 1071},  {0.65, 1097},
    {0.70, 1130}, {0.75, 1189}, {0.80, 1315}, {0.85, 1876},  {0.90, 2734},  {0.925, 4075},
    {0.95, 4083}, {0.98, 4098}, {0.99, 4142}, {0.995, 4831}, {0.999, 6179}, {1.0, 14050}};
/* Two humps, around 100 and around 400 tokens. */
static const ds_quantile azure_conv_output[] = {
    {0.0, 7},    {0.01, 16},  {0.05, 41},  {0.10, 54},   {0.20, 77},   {0.30, 91},
    {0.40, 103}, {0.45, 113}, {0.50, 129}, {0.55, 151},  {0.60, 177},  {0.65, 217},
    {0.70, 384}, {0.75, 395}, {0.80, 400}, {0.85, 411},  {0.90, 424},  {0.925, 430},
    {0.95, 451}, {0.98, 540}, {0.99, 601}, {0.995, 643}, {0.999, 954}, {1.0, 1000}};
#define AZURE_CONV_POINTS (sizeof azure_conv_input / sizeof azure_conv_input[0])

/* Tokens at probability p, whole. */
static inline uint32_t azure_conv_tokens(const ds_quantile *q, double p) {
  return (uint32_t)(ds_quantile_at(q, AZURE_CONV_POINTS, p) + 0.5);
}

#endif
