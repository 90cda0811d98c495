/* Cyclone DDS by the measuring protocol. */
#include "../protocol.h"

#include "dds/dds.h"
#include "types.h"

/* Messages of one take. */
#define BATCH 64
/* Longest wait of a write for room, and for acknowledgements. */
#define STALL DDS_SECS(10)

/* All processes are on one host: the loopback interface, with datagrams and socket buffers as large as they may be. */
#define CONFIGURATION                                                                                                  \
    "<Domain><General><Interfaces><NetworkInterface name=\"lo\" multicast=\"true\"/></Interfaces>"                     \
    "<MaxMessageSize>65500B</MaxMessageSize><FragmentSize>65000B</FragmentSize></General>"                             \
    "<Internal><SocketReceiveBufferSize min=\"default\" max=\"10MB\"/></Internal></Domain>"

static const struct {
    size_t size;
    const dds_topic_descriptor_t *descriptor;
} types[] = {
    {16, &compare_P16_desc},       {64, &compare_P64_desc},       {128, &compare_P128_desc},
    {1024, &compare_P1024_desc},   {10240, &compare_P10240_desc}, {65536, &compare_P65536_desc},
    {1048576, &compare_P1048576_desc},
};

static dds_entity_t domain, participant, writer, reader, waitset;
static uint8_t *message;

static dds_entity_t must(dds_entity_t result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, dds_strretcode(result));
        peer_fail("Cyclone DDS refused a call");
    }
    return result;
}

static dds_entity_t topic(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].size == peer_options.size)
            return must(dds_create_topic(participant, types[i].descriptor, name, NULL, NULL), "topic");
    }
    peer_fail("there is no type of this size");
    return 0;
}

static void peer_open(const peer_options_t *options, const char *write_topic, const char *read_topic)
{
    message = (uint8_t *)malloc(options->size);
    domain = must(dds_create_domain(0, CONFIGURATION), "domain");
    /* The publisher gathers small messages in datagrams; ping and pong send each at once. */
    dds_write_set_batch(read_topic == NULL);
    participant = must(dds_create_participant(0, NULL, NULL), "participant");
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, STALL);
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    if (write_topic != NULL)
        writer = must(dds_create_writer(participant, topic(write_topic), qos, NULL), "writer");
    if (read_topic != NULL) {
        reader = must(dds_create_reader(participant, topic(read_topic), qos, NULL), "reader");
        waitset = must(dds_create_waitset(participant), "waitset");
        must(dds_set_status_mask(reader, DDS_DATA_AVAILABLE_STATUS), "status mask");
        must(dds_waitset_attach(waitset, reader, reader), "attachment");
    }
    dds_delete_qos(qos);
}

static bool peer_matched(unsigned readers)
{
    dds_publication_matched_status_t published = {.current_count = readers};
    dds_subscription_matched_status_t subscribed = {.current_count = 1};
    if (writer != 0)
        must(dds_get_publication_matched_status(writer, &published), "status");
    if (reader != 0)
        must(dds_get_subscription_matched_status(reader, &subscribed), "status");
    return published.current_count >= readers && subscribed.current_count >= 1;
}

static void peer_send(uint64_t index)
{
    peer_fill(message, index);
    must(dds_write(writer, message), "write");
}

static bool peer_receive(uint64_t limit_ns)
{
    void *samples[BATCH] = {NULL};
    dds_sample_info_t info[BATCH];
    bool any = false;
    for (;;) {
        /* The first sample being NULL asks for loans. */
        const dds_return_t taken = must(dds_take(reader, samples, info, BATCH, BATCH), "take");
        for (dds_return_t i = 0; i < taken; i++) {
            if (info[i].valid_data) {
                peer_message((const uint8_t *)samples[i], peer_options.size);
                any = true;
            }
        }
        if (taken > 0)
            must(dds_return_loan(reader, samples, taken), "loan");
        if (any || dds_waitset_wait(waitset, NULL, 0, (dds_duration_t)limit_ns) <= 0)
            return any;
    }
}

static void peer_finish(void)
{
    dds_write_flush(writer);
    must(dds_wait_for_acks(writer, STALL), "acknowledgements");
}

static void peer_close(void)
{
    dds_delete(domain);
    free(message);
}

int main(int argc, char **argv) { return peer_run(argc, argv); }
