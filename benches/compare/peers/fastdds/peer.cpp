/* Fast DDS by the measuring protocol: over its shared memory transport, or with data sharing (`--variant sharing`). */
#include "../protocol.h"

#include <algorithm>
#include <fastdds/dds/core/LoanableSequence.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/Topic.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/common/SerializedPayload.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>
#include <vector>

using namespace eprosima::fastdds::dds;
using eprosima::fastdds::rtps::SharedMemTransportDescriptor;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;
using eprosima::fastrtps::types::ReturnCode_t;

namespace {

/* Bytes before the content of a sample: the representation. */
constexpr uint32_t HEADER = SerializedPayload_t::representation_header_size;
/* Longest wait of a write for room, and for acknowledgements. */
const Duration_t STALL(10, 0);
/* Time between heartbeats of the writer to readers that have not acknowledged all. */
const Duration_t HEARTBEAT(0, 10000000);
/* Samples in a history: as many as fit into this many bytes, between these bounds. */
constexpr size_t HISTORY_BYTES = size_t(16) << 20, MOST_SAMPLES = 1000, FEWEST_SAMPLES = 8;
/* Samples beside those of the history, for loans. */
constexpr int32_t LOANS = 8;
/* Bytes of the shared memory of a participant, and of the largest message in it. */
constexpr uint32_t SEGMENT_BYTES = uint32_t(64) << 20, MESSAGE_BYTES = uint32_t(2) << 20;
constexpr uint32_t PORT_QUEUE = 4096;

/* A plain struct of `size` bytes. */
class PlainType : public TopicDataType {
public:
    explicit PlainType(uint32_t size) : size_(size)
    {
        setName(("Plain" + std::to_string(size)).c_str());
        m_typeSize = size + HEADER;
        auto_fill_type_object(false);
        auto_fill_type_information(false);
    }

    bool serialize(void *data, SerializedPayload_t *payload) override
    {
        const uint8_t header[HEADER] = {0, CDR_LE, 0, 0};
        std::memcpy(payload->data, header, HEADER);
        std::memcpy(payload->data + HEADER, data, size_);
        payload->length = size_ + HEADER;
        return true;
    }

    bool deserialize(SerializedPayload_t *payload, void *data) override
    {
        if (payload->length < size_ + HEADER)
            return false;
        std::memcpy(data, payload->data + HEADER, size_);
        return true;
    }

    std::function<uint32_t()> getSerializedSizeProvider(void *) override
    {
        return [this] { return size_ + HEADER; };
    }

    void *createData() override { return std::malloc(size_); }
    void deleteData(void *data) override { std::free(data); }
    bool getKey(void *, InstanceHandle_t *, bool) override { return false; }
    bool is_bounded() const override { return true; }
    bool is_plain() const override { return true; }
    bool construct_sample(void *) const override { return true; }

private:
    uint32_t size_;
};

DomainParticipant *participant;
DataWriter *writer;
DataReader *reader;
/* Taken sample, if samples are copied. */
std::vector<uint8_t> copy;

bool shares(const peer_options_t *options) { return std::strcmp(options->variant, "sharing") == 0; }

template <typename Entity> Entity *must(Entity *entity, const char *what)
{
    if (entity == nullptr)
        peer_fail(what);
    return entity;
}

void must(const ReturnCode_t &result, const char *what)
{
    if (result != ReturnCode_t::RETCODE_OK) {
        std::fprintf(stderr, "return code %u: ", result());
        peer_fail(what);
    }
}

template <typename Qos> void set_qos(Qos &qos, const peer_options_t *options)
{
    const auto samples = static_cast<int32_t>(
        std::clamp(HISTORY_BYTES / options->size, FEWEST_SAMPLES, MOST_SAMPLES));
    qos.reliability().kind = RELIABLE_RELIABILITY_QOS;
    qos.reliability().max_blocking_time = STALL;
    qos.history().kind = KEEP_ALL_HISTORY_QOS;
    qos.resource_limits().max_samples = samples;
    qos.resource_limits().max_instances = 1;
    qos.resource_limits().max_samples_per_instance = samples;
    qos.resource_limits().allocated_samples = samples;
    qos.resource_limits().extra_samples = LOANS;
    if (shares(options))
        qos.data_sharing().automatic();
    else
        qos.data_sharing().off();
}

Topic *topic(const char *name, const TypeSupport &type)
{
    return must(participant->create_topic(name, type.get_type_name(), TOPIC_QOS_DEFAULT), "no topic");
}

} // namespace

static void peer_open(const peer_options_t *options, const char *write_topic, const char *read_topic)
{
    copy.resize(shares(options) ? options->size : 0);
    auto shared_memory = std::make_shared<SharedMemTransportDescriptor>();
    shared_memory->segment_size(SEGMENT_BYTES);
    shared_memory->port_queue_capacity(PORT_QUEUE);
    shared_memory->max_message_size(MESSAGE_BYTES);
    DomainParticipantQos qos;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(shared_memory);
    participant = must(DomainParticipantFactory::get_instance()->create_participant(0, qos), "no participant");
    TypeSupport type(new PlainType(static_cast<uint32_t>(options->size)));
    must(type.register_type(participant), "the type is refused");
    if (write_topic != nullptr) {
        DataWriterQos writer_qos;
        set_qos(writer_qos, options);
        writer_qos.reliable_writer_qos().times.heartbeatPeriod = HEARTBEAT;
        writer_qos.reliable_writer_qos().times.nackResponseDelay = Duration_t(0, 0);
        Publisher *publisher = must(participant->create_publisher(PUBLISHER_QOS_DEFAULT), "no publisher");
        writer = must(publisher->create_datawriter(topic(write_topic, type), writer_qos), "no writer");
    }
    if (read_topic != nullptr) {
        DataReaderQos reader_qos;
        set_qos(reader_qos, options);
        reader_qos.reliable_reader_qos().times.heartbeatResponseDelay = Duration_t(0, 0);
        Subscriber *subscriber = must(participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT), "no subscriber");
        reader = must(subscriber->create_datareader(topic(read_topic, type), reader_qos), "no reader");
    }
}

static bool peer_matched(unsigned readers)
{
    PublicationMatchedStatus published;
    SubscriptionMatchedStatus subscribed;
    if (writer != nullptr)
        must(writer->get_publication_matched_status(published), "no status");
    if (reader != nullptr)
        must(reader->get_subscription_matched_status(subscribed), "no status");
    return (writer == nullptr || published.current_count >= static_cast<int32_t>(readers)) &&
           (reader == nullptr || subscribed.current_count >= 1);
}

static void peer_send(uint64_t index)
{
    void *sample = nullptr;
    must(writer->loan_sample(sample), "no loan");
    peer_fill(static_cast<uint8_t *>(sample), index);
    if (!writer->write(sample))
        peer_fail("a write found no room");
}

/* Takes what is there, read where it was received. */
static bool take_loans()
{
    LoanableSequence<uint8_t> samples;
    SampleInfoSeq infos;
    if (reader->take(samples, infos) != ReturnCode_t::RETCODE_OK)
        return false;
    bool any = false;
    for (LoanableCollection::size_type i = 0; i < infos.length(); i++) {
        if (infos[i].valid_data) {
            peer_message(&samples[i], peer_options.size);
            any = true;
        }
    }
    must(reader->return_loan(samples, infos), "a loan is refused");
    return any;
}

/* Takes what is there as copies. With data sharing, the writer may overwrite a loaned sample: it is acknowledged as soon as
 * it is taken. */
static bool take_copies()
{
    SampleInfo info;
    bool any = false;
    while (reader->take_next_sample(copy.data(), &info) == ReturnCode_t::RETCODE_OK) {
        if (info.valid_data) {
            peer_message(copy.data(), copy.size());
            any = true;
        }
    }
    return any;
}

static bool peer_receive(uint64_t limit_ns)
{
    const auto take = copy.empty() ? take_loans : take_copies;
    const Duration_t limit(static_cast<int32_t>(limit_ns / 1000000000u), static_cast<uint32_t>(limit_ns % 1000000000u));
    return take() || (reader->wait_for_unread_message(limit) && take());
}

static void peer_finish(void) { must(writer->wait_for_acknowledgments(STALL), "no acknowledgements"); }

static void peer_close(void)
{
    participant->delete_contained_entities();
    DomainParticipantFactory::get_instance()->delete_participant(participant);
}

int main(int argc, char **argv) { return peer_run(argc, argv); }
