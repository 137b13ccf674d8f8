/* Lookups of DPDK's libraries, timed: rte_acl, rte_hash and rte_member.
 *
 *   dpdk_acl acl FILTERS HEADERS SAMPLES MAX_BYTES   5-tuple filters with ranges, as ClassBench's
 *   dpdk_acl hash KEYS SAMPLES                       one table of exact keys, the physical line
 *   dpdk_acl member KEYS SAMPLES                     a vector Bloom filter over 20 sets of keys
 *   dpdk_acl subtables PER_TABLE FLOWS               the same of flows, and a probe of the rules' table
 *
 * FILTERS has a line for each: source, length, destination, length, two pairs of ports, protocol,
 * its mask; HEADERS: source, destination, two ports, protocol; all decimal. The first filter that
 * matches wins. Each result is one line of JSON on standard output. Times are the processor time
 * of this thread; keys come in bursts of 32. `subtables` says that it is ready, and then takes one
 * sample for each line of standard input, so that it can take turns with another program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_acl.h>
#include <rte_byteorder.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_member.h>

#define BURST 32
#define FIELDS 5
#define CHECKS 1000
#define SAMPLES_MAX 64

struct header {
    uint8_t protocol;
    uint8_t unused[3];
    uint32_t source, destination;
    uint16_t source_port, destination_port;
};

static struct rte_acl_field_def fields[FIELDS] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct header, protocol)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct header, source)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct header, destination)},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct header, source_port)},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(struct header, destination_port)},
};

RTE_ACL_RULE_DEF(filter, FIELDS);

static void fail(const char *what)
{
    fprintf(stderr, "dpdk_acl: %s\n", what);
    exit(1);
}

static double processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_spread(double *costs, int count)
{
    qsort(costs, count, sizeof *costs, by_size);
    printf("\"ns_per_lookup\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
           costs[(count - 1) / 2], costs[0], costs[count - 1]);
}

/* A generator of numbers (splitmix64), the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

static size_t count_lines(FILE *file)
{
    size_t lines = 0;
    for (int byte; (byte = getc(file)) != EOF;)
        lines += byte == '\n';
    rewind(file);
    return lines;
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(path);
    return file;
}

static struct filter *read_filters(const char *path, size_t *count)
{
    FILE *file = open_file(path);
    *count = count_lines(file);
    struct filter *filters = calloc(*count, sizeof *filters);
    for (size_t i = 0; i < *count; i++) {
        struct filter *one = &filters[i];
        unsigned v[10];
        if (fscanf(file, "%u %u %u %u %u %u %u %u %u %u", v, v + 1, v + 2, v + 3, v + 4, v + 5,
                   v + 6, v + 7, v + 8, v + 9) != 10)
            fail("a filter cannot be read");
        one->data.category_mask = 1;
        one->data.priority = RTE_ACL_MAX_PRIORITY - (int32_t)i;
        one->data.userdata = i + 1;
        one->field[0].value.u8 = v[8];
        one->field[0].mask_range.u8 = v[9];
        one->field[1].value.u32 = v[0];
        one->field[1].mask_range.u32 = v[1];
        one->field[2].value.u32 = v[2];
        one->field[2].mask_range.u32 = v[3];
        one->field[3].value.u16 = v[4];
        one->field[3].mask_range.u16 = v[5];
        one->field[4].value.u16 = v[6];
        one->field[4].mask_range.u16 = v[7];
    }
    fclose(file);
    return filters;
}

static struct header *read_headers(const char *path, size_t *count)
{
    FILE *file = open_file(path);
    *count = count_lines(file) / BURST * BURST;
    struct header *headers = calloc(*count, sizeof *headers);
    for (size_t i = 0; i < *count; i++) {
        unsigned v[5];
        if (fscanf(file, "%u %u %u %u %u", v, v + 1, v + 2, v + 3, v + 4) != 5)
            fail("a header cannot be read");
        headers[i].source = rte_cpu_to_be_32(v[0]);
        headers[i].destination = rte_cpu_to_be_32(v[1]);
        headers[i].source_port = rte_cpu_to_be_16(v[2]);
        headers[i].destination_port = rte_cpu_to_be_16(v[3]);
        headers[i].protocol = v[4];
    }
    fclose(file);
    return headers;
}

static int is_in_prefix(uint32_t address, uint32_t prefix, uint32_t length)
{
    return length == 0 || (address ^ prefix) >> (32 - length) == 0;
}

/* The answer by going through all filters: the first one that matches, from 1. */
static uint32_t right_answer(const struct filter *filters, size_t count, const struct header *header)
{
    uint32_t source = rte_be_to_cpu_32(header->source);
    uint32_t destination = rte_be_to_cpu_32(header->destination);
    uint16_t from = rte_be_to_cpu_16(header->source_port);
    uint16_t to = rte_be_to_cpu_16(header->destination_port);
    for (size_t i = 0; i < count; i++) {
        const struct rte_acl_field *f = filters[i].field;
        if (((header->protocol ^ f[0].value.u8) & f[0].mask_range.u8) == 0
            && is_in_prefix(source, f[1].value.u32, f[1].mask_range.u32)
            && is_in_prefix(destination, f[2].value.u32, f[2].mask_range.u32)
            && f[3].value.u16 <= from && from <= f[3].mask_range.u16
            && f[4].value.u16 <= to && to <= f[4].mask_range.u16)
            return i + 1;
    }
    return 0;
}

static void classify_all(const struct rte_acl_ctx *context, const struct header *headers,
                         size_t count, uint32_t *answers)
{
    for (size_t i = 0; i < count; i += BURST) {
        const uint8_t *burst[BURST];
        for (int j = 0; j < BURST; j++)
            burst[j] = (const uint8_t *)&headers[i + j];
        rte_acl_classify(context, burst, answers + i, BURST, 1);
    }
}

static void measure_acl(char **arguments)
{
    size_t filter_count, header_count;
    struct filter *filters = read_filters(arguments[0], &filter_count);
    struct header *headers = read_headers(arguments[1], &header_count);
    int samples = atoi(arguments[2]);
    struct rte_acl_param parameters = {
        .name = "filters",
        .socket_id = SOCKET_ID_ANY,
        .rule_size = RTE_ACL_RULE_SZ(FIELDS),
        .max_rule_num = filter_count,
    };
    struct rte_acl_ctx *context = rte_acl_create(&parameters);
    if (context == NULL)
        fail("rte_acl_create");
    double start = processor_ns();
    if (rte_acl_add_rules(context, (struct rte_acl_rule *)filters, filter_count) != 0)
        fail("rte_acl_add_rules");
    struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS,
                                    .max_size = strtoull(arguments[3], NULL, 10)};
    memcpy(config.defs, fields, sizeof fields);
    struct rte_malloc_socket_stats before, after;
    rte_malloc_get_socket_stats(0, &before);
    int error = rte_acl_build(context, &config);
    double build_ms = (processor_ns() - start) / 1e6;
    if (error != 0) {
        printf("{\"classifier\": \"rte_acl\", \"filters\": %zu, \"build_ms\": %.1f, "
               "\"refused\": \"rte_acl_build: %s\"}\n", filter_count, build_ms, strerror(-error));
        return;
    }
    rte_malloc_get_socket_stats(0, &after);
    uint32_t *answers = calloc(header_count, sizeof *answers);
    double costs[SAMPLES_MAX];
    for (int sample = -1; sample < samples; sample++) {
        start = processor_ns();
        classify_all(context, headers, header_count, answers);
        if (sample >= 0)
            costs[sample] = (processor_ns() - start) / header_count;
    }
    size_t checked = header_count < CHECKS ? header_count : CHECKS, wrong = 0;
    for (size_t i = 0; i < checked; i++) {
        size_t place = i * (header_count / checked);
        wrong += answers[place] != right_answer(filters, filter_count, &headers[place]);
    }
    printf("{\"classifier\": \"rte_acl\", \"filters\": %zu, \"rules\": %zu, ", filter_count,
           filter_count);
    print_spread(costs, samples);
    printf(", \"build_ms\": %.1f, \"memory_bytes\": %zu, \"checked\": %zu, \"wrong\": %zu}\n",
           build_ms, after.heap_allocsz_bytes - before.heap_allocsz_bytes, checked, wrong);
}

#define KEY_BYTES 16
#define QUESTIONS (1 << 18)

/* Keys, and which of them are asked about, evenly drawn. */
static uint64_t (*draw_keys(size_t count))[2]
{
    uint64_t state = 1, (*keys)[2] = calloc(count, sizeof *keys);
    for (size_t i = 0; i < count; i++) {
        keys[i][0] = next_random(&state);
        keys[i][1] = next_random(&state);
    }
    return keys;
}

static void measure_hash(char **arguments)
{
    size_t count = strtoull(arguments[0], NULL, 10);
    int samples = atoi(arguments[1]);
    uint64_t(*keys)[2] = draw_keys(count);
    struct rte_hash_parameters parameters = {
        .name = "keys",
        .entries = count + count / 4 + 8,
        .key_len = KEY_BYTES,
        .hash_func = rte_hash_crc,
        .socket_id = SOCKET_ID_ANY,
    };
    struct rte_hash *hash = rte_hash_create(&parameters);
    if (hash == NULL)
        fail("rte_hash_create");
    double start = processor_ns();
    for (size_t i = 0; i < count; i++)
        if (rte_hash_add_key_data(hash, keys[i], (void *)(uintptr_t)(i + 1)) != 0)
            fail("rte_hash_add_key_data");
    double build_ms = (processor_ns() - start) / 1e6;
    uint64_t state = 2, (*asked)[2] = calloc(QUESTIONS, sizeof *asked);
    uint32_t *right = calloc(QUESTIONS, sizeof *right);
    for (size_t i = 0; i < QUESTIONS; i++) {
        right[i] = next_random(&state) % count;
        memcpy(asked[i], keys[right[i]], KEY_BYTES);
    }
    double costs[SAMPLES_MAX];
    size_t wrong = 0;
    for (int sample = -1; sample < samples; sample++) {
        wrong = 0;
        start = processor_ns();
        for (size_t i = 0; i < QUESTIONS; i += BURST) {
            const void *burst[BURST];
            void *found[BURST];
            uint64_t hits = 0;
            for (int j = 0; j < BURST; j++)
                burst[j] = asked[i + j];
            rte_hash_lookup_bulk_data(hash, burst, BURST, &hits, found);
            for (int j = 0; j < BURST; j++)
                wrong += !(hits >> j & 1) || (uintptr_t)found[j] != right[i + j] + 1;
        }
        if (sample >= 0)
            costs[sample] = (processor_ns() - start) / QUESTIONS;
    }
    printf("{\"classifier\": \"rte_hash (exact keys)\", \"rules\": %zu, ", count);
    print_spread(costs, samples);
    printf(", \"build_ms\": %.1f, \"checked\": %d, \"wrong\": %zu}\n", build_ms, QUESTIONS, wrong);
}

#define SETS 20

static struct rte_member_setsum *create_filter(size_t keys_per_set, uint32_t key_bytes)
{
    struct rte_member_parameters parameters = {
        .name = "keys",
        .type = RTE_MEMBER_TYPE_VBF,
        /* The filter is sized for so many keys of a set, and 32 sets. */
        .num_keys = keys_per_set * 32,
        .key_len = key_bytes,
        .num_set = 32,
        .false_positive_rate = 0.03f,
        .prim_hash_seed = 1,
        .sec_hash_seed = 11,
        .socket_id = SOCKET_ID_ANY,
    };
    struct rte_member_setsum *filter = rte_member_create(&parameters);
    if (filter == NULL)
        fail("rte_member_create");
    return filter;
}

static void measure_member(char **arguments)
{
    size_t count = strtoull(arguments[0], NULL, 10);
    int samples = atoi(arguments[1]);
    uint64_t(*keys)[2] = draw_keys(count);
    struct rte_member_setsum *summary = create_filter(count / SETS + 1, KEY_BYTES);
    double start = processor_ns();
    for (size_t i = 0; i < count; i++)
        if (rte_member_add(summary, keys[i], i % SETS + 1) < 0)
            fail("rte_member_add");
    double build_ms = (processor_ns() - start) / 1e6;
    uint64_t state = 2, (*asked)[2] = calloc(QUESTIONS, sizeof *asked);
    for (size_t i = 0; i < QUESTIONS; i++)
        memcpy(asked[i], keys[next_random(&state) % count], KEY_BYTES);
    double costs[SAMPLES_MAX];
    for (int sample = -1; sample < samples; sample++) {
        size_t missed = 0;
        start = processor_ns();
        for (size_t i = 0; i < QUESTIONS; i += BURST) {
            const void *burst[BURST];
            member_set_t sets[BURST];
            for (int j = 0; j < BURST; j++)
                burst[j] = asked[i + j];
            missed += BURST - rte_member_lookup_bulk(summary, burst, BURST, sets);
        }
        if (sample >= 0)
            costs[sample] = (processor_ns() - start) / QUESTIONS;
        if (missed != 0)
            fail("the filter has lost keys");
    }
    printf("{\"classifier\": \"rte_member vBF (20 sets, filter alone)\", \"rules\": %zu, ", count);
    print_spread(costs, samples);
    printf(", \"build_ms\": %.1f}\n", build_ms);
}

/* A five-tuple; `table` is zero but in the table of rules. */
struct tuple {
    uint32_t source, destination, ports;
    uint8_t protocol, table, unused[2];
};

static struct tuple draw_tuple(uint64_t *state)
{
    uint64_t addresses = next_random(state);
    return (struct tuple){.source = addresses >> 32, .destination = addresses,
                          .ports = next_random(state), .protocol = 6};
}

/* What a sub-table's rules match of it: the prefixes of crates/classifier/benches/bloom.rs. */
static struct tuple masked(const struct tuple *key, unsigned table)
{
    static const uint8_t source[] = {16, 20, 24, 28, 32}, destination[] = {24, 28, 30, 32};
    return (struct tuple){.source = key->source & UINT32_MAX << (32 - source[table % 5]),
                          .destination = key->destination
                                         & UINT32_MAX << (32 - destination[table / 5 % 4]),
                          .protocol = key->protocol, .table = table + 1};
}

/* Looks flows up: the filter names a sub-table, whose rule is then probed for, 32 at once. Rules of
 * all sub-tables are in one hash table, so that the probes can be made together. Returns how many
 * were not found, which are those for which the filter named another sub-table. */
static size_t look_up_flows(struct rte_member_setsum *filter, struct rte_hash *rules,
                            const struct tuple *asked)
{
    size_t missed = 0;
    for (size_t i = 0; i < QUESTIONS; i += BURST) {
        const void *burst[BURST], *probes[BURST];
        struct tuple keys[BURST];
        member_set_t sets[BURST];
        void *found[BURST];
        uint64_t hits = 0;
        for (int j = 0; j < BURST; j++)
            burst[j] = &asked[i + j];
        rte_member_lookup_bulk(filter, burst, BURST, sets);
        for (int j = 0; j < BURST; j++) {
            keys[j] = masked(&asked[i + j], sets[j] - 1);
            probes[j] = &keys[j];
        }
        rte_hash_lookup_bulk_data(rules, probes, BURST, &hits, found);
        missed += BURST - __builtin_popcountll(hits);
    }
    return missed;
}

static void measure_subtables(char **arguments)
{
    size_t count = strtoull(arguments[0], NULL, 10) * SETS;
    size_t flows = strtoull(arguments[1], NULL, 10);
    struct rte_hash_parameters parameters = {
        .name = "rules",
        .entries = count + count / 4 + 8,
        .key_len = sizeof(struct tuple),
        .hash_func = rte_hash_crc,
        .socket_id = SOCKET_ID_ANY,
    };
    struct rte_hash *rules = rte_hash_create(&parameters);
    if (rules == NULL)
        fail("rte_hash_create");
    struct rte_member_setsum *filter = create_filter(flows / SETS + 1, sizeof(struct tuple));
    uint64_t state = 1;
    struct tuple *values = calloc(count, sizeof *values), *keys = calloc(flows, sizeof *keys);
    double start = processor_ns();
    for (size_t i = 0; i < count; i++) {
        struct tuple key = draw_tuple(&state);
        values[i] = masked(&key, i % SETS);
        if (rte_hash_add_key_data(rules, &values[i], (void *)(uintptr_t)(i + 1)) != 0)
            fail("rte_hash_add_key_data");
    }
    double build_ms = (processor_ns() - start) / 1e6;
    for (size_t i = 0; i < flows; i++) {
        /* A rule, and the bits that it leaves open. */
        const struct tuple *value = &values[next_random(&state) % count];
        unsigned table = value->table - 1;
        struct tuple key = draw_tuple(&state), own = masked(&key, table);
        key.source ^= own.source ^ value->source;
        key.destination ^= own.destination ^ value->destination;
        keys[i] = key;
        if (rte_member_add(filter, &keys[i], table + 1) < 0)
            fail("rte_member_add");
    }
    struct tuple *asked = calloc(QUESTIONS, sizeof *asked);
    printf("{\"rules\": %zu, \"build_ms\": %.1f}\n", count, build_ms);
    fflush(stdout);
    /* The caches are those of whose turn it was before: one round goes by uncounted. */
    for (int byte; (byte = getchar()) != EOF;) {
        double cost = 0;
        size_t missed = 0;
        for (int round = 0; byte == '\n' && round < 2; round++) {
            for (size_t i = 0; i < QUESTIONS; i++)
                asked[i] = keys[next_random(&state) % flows];
            start = processor_ns();
            missed = look_up_flows(filter, rules, asked);
            cost = (processor_ns() - start) / QUESTIONS;
        }
        if (byte == '\n')
            printf("{\"ns\": %.3f, \"not_found\": %.4f}\n", cost, (double)missed / QUESTIONS);
        fflush(stdout);
    }
}

int main(int count, char **arguments)
{
    int taken = rte_eal_init(count, arguments);
    if (taken < 0)
        fail("rte_eal_init");
    arguments += taken + 1;
    count -= taken + 1;
    if (count == 5 && strcmp(arguments[0], "acl") == 0)
        measure_acl(arguments + 1);
    else if (count == 3 && strcmp(arguments[0], "hash") == 0)
        measure_hash(arguments + 1);
    else if (count == 3 && strcmp(arguments[0], "member") == 0)
        measure_member(arguments + 1);
    else if (count == 3 && strcmp(arguments[0], "subtables") == 0)
        measure_subtables(arguments + 1);
    else
        fail("see the top of dpdk_acl.c for its arguments");
    return rte_eal_cleanup();
}
