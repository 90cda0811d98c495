/* The measuring protocol for peers in C and C++: options, standard input and output, payload, and the four roles.
 *
 * A peer includes this file, defines the functions `peer_*` below, and returns `peer_run(argc, argv)` from `main`.
 * Messages have the layout of `squall perf peer`:
 *
 *   byte  0   index: u64 le       0, 1, ...
 *         8   zero: u64                                                      } if there
 *        16   filling             every byte is the lowest one of the index  } are 24 bytes
 *   last 8    index again                                                    } or more
 */
#ifndef COMPARE_PROTOCOL_H
#define COMPARE_PROTOCOL_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct peer_options {
    const char *role;
    size_t size;
    uint64_t count;
    unsigned subs;
    unsigned index;
    const char *session;
    const char *variant;
} peer_options_t;

/* Connects, and makes a writer and a reader for the topics that are not NULL. */
static void peer_open(const peer_options_t *options, const char *write_topic, const char *read_topic);
/* Whether the writer, if there is one, has this many readers, and the reader a writer. */
static bool peer_matched(unsigned readers);
/* Sends the message with this index, and waits if there is no room. */
static void peer_send(uint64_t index);
/* Calls `peer_message` for each message that is there; waits at most this time for the first one. Returns whether there
 * was one. */
static bool peer_receive(uint64_t limit_ns);
/* Waits until the readers have all messages. */
static void peer_finish(void);
/* Leaves. */
static void peer_close(void);

/* Longest wait between two looks at standard input. */
#define PEER_LOOK_NS UINT64_C(100000000)
/* Smallest message with a second index at its end. */
#define PEER_FULL 24
/* Longest waits: for the next message, and for the others and the first message. */
#define PEER_SILENCE_NS (5 * UINT64_C(1000000000))
#define PEER_START_NS (60 * UINT64_C(1000000000))
/* Time in which a process must leave after its standard input has ended. */
#define PEER_GRACE_S 5

static peer_options_t peer_options;
/* Written by the thread of standard input. */
static bool peer_go, peer_exit, peer_ended;
static uint64_t peer_next, peer_received, peer_lost, peer_disorder, peer_corrupt, peer_first_ns, peer_last_ns;

#define PEER_GET(value) __atomic_load_n(&(value), __ATOMIC_ACQUIRE)
#define PEER_SET(variable, value) __atomic_store_n(&(variable), (value), __ATOMIC_RELEASE)

static uint64_t peer_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void peer_sleep(uint64_t nanos)
{
    struct timespec time = {(time_t)(nanos / 1000000000u), (long)(nanos % 1000000000u)};
    nanosleep(&time, NULL);
}

static void peer_fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    fflush(NULL);
    _exit(1);
}

/* Writes every byte of a message. */
static inline void peer_fill(uint8_t *bytes, uint64_t index)
{
    const size_t size = peer_options.size;
    memcpy(bytes, &index, 8);
    if (size >= PEER_FULL) {
        memset(bytes + 8, 0, 8);
        memset(bytes + 16, (int)(index & 0xff), size - 24);
        memcpy(bytes + size - 8, &index, 8);
    } else {
        memset(bytes + 8, (int)(index & 0xff), size - 8);
    }
}

/* Counts a message. */
static inline void peer_message(const uint8_t *bytes, size_t size)
{
    uint64_t index = 0, again = 0;
    if (peer_received++ == 0)
        peer_first_ns = peer_now();
    memcpy(&index, bytes, size >= 8 ? 8 : 0);
    memcpy(&again, size >= PEER_FULL ? bytes + size - 8 : (const uint8_t *)&index, 8);
    if (size != peer_options.size || index != again) {
        peer_corrupt++;
    } else if (index < peer_next) {
        peer_disorder++;
    } else {
        peer_lost += index - peer_next;
        peer_next = index + 1;
    }
}

static void *peer_listen(void *unused)
{
    char line[64];
    (void)unused;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "GO", 2) == 0)
            PEER_SET(peer_go, true);
        else if (strncmp(line, "EXIT", 4) == 0)
            PEER_SET(peer_exit, true);
    }
    PEER_SET(peer_ended, true);
    sleep(PEER_GRACE_S);
    _exit(1);
    return NULL;
}

static void peer_say(const char *line)
{
    puts(line);
    fflush(stdout);
}

/* Waits for a flag; returns false at the end of standard input. */
static bool peer_wait(const bool *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) {
        if (PEER_GET(peer_ended))
            return false;
        peer_sleep(500000);
    }
    return true;
}

/* Receives until message `count - 1` was there, or none came for too long, or the role must end. */
static void peer_receive_until(uint64_t count)
{
    uint64_t heard = peer_now();
    while (peer_next < count && !PEER_GET(peer_ended)) {
        const bool any = peer_receive(PEER_LOOK_NS);
        const uint64_t now = peer_now();
        if (any)
            heard = peer_last_ns = now;
        else if (now - heard > (peer_received == 0 ? PEER_START_NS : PEER_SILENCE_NS))
            return;
    }
}

/* Receives one message after the other, and answers each (pong), or measures (ping). */
static void peer_exchange(uint64_t *times)
{
    const uint64_t warm_up = peer_options.count / 10, rounds = warm_up + peer_options.count;
    for (uint64_t i = 0; i < rounds && !PEER_GET(peer_ended); i++) {
        const uint64_t start = peer_now();
        if (times != NULL)
            peer_send(i);
        peer_receive_until(i + 1);
        if (peer_received != i + 1 || peer_next != i + 1 || peer_corrupt > 0)
            peer_fail("a round trip is missing or corrupt");
        if (times == NULL)
            peer_send(i);
        else if (i >= warm_up)
            times[i - warm_up] = (peer_now() - start) / 2;
    }
}

static int peer_compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void peer_say_times(uint64_t *times)
{
    const uint64_t count = peer_options.count;
    double sum = 0;
    qsort(times, count, sizeof *times, peer_compare);
    for (uint64_t i = 0; i < count; i++)
        sum += (double)times[i];
    const uint64_t p50 = times[count / 2], p99 = times[count * 99 / 100],
                   p999 = times[count * 999 / 1000];
    printf("{\"role\":\"ping\",\"count\":%" PRIu64 ",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64
           ",\"p999_ns\":%" PRIu64 ",\"mean_ns\":%.1f,\"min_ns\":%" PRIu64 "}\n",
           count, p50, p99, p999, sum / (double)count, times[0]);
    fflush(stdout);
}

static void peer_parse(int argc, char **argv)
{
    peer_options.role = argc > 1 ? argv[1] : "";
    peer_options.subs = 1;
    peer_options.session = peer_options.variant = "";
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--size") == 0)
            peer_options.size = strtoull(value, NULL, 10);
        else if (strcmp(name, "--count") == 0)
            peer_options.count = strtoull(value, NULL, 10);
        else if (strcmp(name, "--subs") == 0)
            peer_options.subs = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(name, "--index") == 0)
            peer_options.index = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(name, "--session") == 0)
            peer_options.session = value;
        else if (strcmp(name, "--variant") == 0)
            peer_options.variant = value;
        else
            peer_fail("unknown option");
    }
    if (peer_options.size < 8 || peer_options.count == 0 || peer_options.session[0] == 0)
        peer_fail("usage: pub|sub|ping|pong --size S --count C --session NAME [--subs N] [--index I] [--variant V]");
}

/* Runs the role that the command line names. */
static int peer_run(int argc, char **argv)
{
    peer_parse(argc, argv);
    const char *session = peer_options.session, *role = peer_options.role;
    const bool pub = strcmp(role, "pub") == 0, sub = strcmp(role, "sub") == 0, ping = strcmp(role, "ping") == 0;
    if (!pub && !sub && !ping && strcmp(role, "pong") != 0)
        peer_fail("the role is pub, sub, ping or pong");
    char there[256], back[256];
    snprintf(there, sizeof there, "%s_ping", session);
    snprintf(back, sizeof back, "%s_pong", session);
    pthread_t listener;
    pthread_create(&listener, NULL, peer_listen, NULL);
    if (pub || sub)
        peer_open(&peer_options, pub ? session : NULL, sub ? session : NULL);
    else
        peer_open(&peer_options, ping ? there : back, ping ? back : there);
    const uint64_t start = peer_now();
    while (!peer_matched(peer_options.subs)) {
        if (PEER_GET(peer_ended) || peer_now() - start > PEER_START_NS)
            peer_fail("the others of the session have not come");
        peer_sleep(2000000);
    }
    peer_say("READY");
    if ((pub || ping) && !peer_wait(&peer_go))
        return 0;
    if (pub) {
        const uint64_t t_start = peer_now();
        for (uint64_t i = 0; i < peer_options.count && !PEER_GET(peer_ended); i++)
            peer_send(i);
        const uint64_t t_end = peer_now();
        peer_finish();
        printf("{\"role\":\"pub\",\"sent\":%" PRIu64 ",\"t_start_ns\":%" PRIu64 ",\"t_end_ns\":%" PRIu64 "}\n",
               peer_options.count, t_start, t_end);
        fflush(stdout);
    } else if (sub) {
        peer_receive_until(peer_options.count);
        const uint64_t missing = peer_next < peer_options.count ? peer_options.count - peer_next : 0;
        printf("{\"role\":\"sub\",\"index\":%u,\"received\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"disorder\":%" PRIu64
               ",\"corrupt\":%" PRIu64 ",\"t_first_ns\":%" PRIu64 ",\"t_last_ns\":%" PRIu64 "}\n",
               peer_options.index, peer_received, peer_lost + missing, peer_disorder, peer_corrupt, peer_first_ns,
               peer_last_ns);
        fflush(stdout);
    } else {
        uint64_t *times = ping ? (uint64_t *)calloc(peer_options.count, sizeof *times) : NULL;
        peer_exchange(times);
        if (ping)
            peer_say_times(times);
        else
            peer_say("{\"role\":\"pong\"}");
        free(times);
    }
    peer_wait(&peer_exit);
    peer_close();
    return 0;
}

#endif
