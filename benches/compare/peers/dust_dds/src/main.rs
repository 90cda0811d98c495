//! dust_dds by the measuring protocol.

use std::time::Duration;

use dust_dds::condition::StatusCondition;
use dust_dds::domain::domain_participant::DomainParticipant;
use dust_dds::domain::domain_participant_factory::DomainParticipantFactory;
use dust_dds::infrastructure::error::DdsError;
use dust_dds::infrastructure::listener::NO_LISTENER;
use dust_dds::infrastructure::qos::{DataReaderQos, DataWriterQos, QosKind};
use dust_dds::infrastructure::qos_policy::{
    HistoryQosPolicy, HistoryQosPolicyKind, ReliabilityQosPolicy, ReliabilityQosPolicyKind,
};
use dust_dds::infrastructure::sample_info::{ANY_INSTANCE_STATE, ANY_SAMPLE_STATE, ANY_VIEW_STATE};
use dust_dds::infrastructure::status::{NO_STATUS, StatusKind};
use dust_dds::infrastructure::time::{Duration as DdsDuration, DurationKind};
use dust_dds::infrastructure::type_support::DdsType;
use dust_dds::publication::data_writer::DataWriter;
use dust_dds::subscription::data_reader::DataReader;
use dust_dds::topic_definition::topic::Topic;
use dust_dds::wait_set::{Condition, WaitSet};
use peer_protocol::{Peer, PeerError, PeerOptions, PeerReader, PeerResult, PeerWriter};

/// Bytes and number of samples that a writer keeps until they are acknowledged, at most: less than
/// the receive buffer of a socket, because lost fragments are expensive.
const HISTORY_BYTES: usize = 2 << 20;
const MOST_SAMPLES: usize = 1000;
const FEWEST_SAMPLES: usize = 2;
/// Maximum number of samples of one take.
const BATCH: i32 = 1000;
/// Longest wait of a write for room, and for acknowledgements.
const STALL_SECONDS: i32 = 10;
/// Bytes of the receive buffer of a socket.
const SOCKET_BUFFER: usize = 8 << 20;
/// Bytes of a fragment of a large sample, as many as are allowed.
const FRAGMENT: usize = 65000;

#[derive(DdsType)]
struct BytesSample {
    bytes: Vec<u8>,
}

struct DustPeer {
    participant: DomainParticipant,
    size: usize,
}

struct DustWriter {
    writer: DataWriter<BytesSample>,
}

struct DustReader {
    reader: DataReader<BytesSample>,
    wait_set: WaitSet,
    _condition: StatusCondition,
}

fn failed(error: DdsError) -> PeerError {
    format!("dust_dds: {error:?}").into()
}

fn reliability() -> ReliabilityQosPolicy {
    ReliabilityQosPolicy {
        kind: ReliabilityQosPolicyKind::Reliable,
        max_blocking_time: DurationKind::Finite(DdsDuration::new(STALL_SECONDS, 0)),
    }
}

impl DustPeer {
    fn topic(&self, name: &str) -> PeerResult<Topic> {
        self.participant
            .create_topic::<BytesSample>(
                name,
                "BytesSample",
                QosKind::Default,
                NO_LISTENER,
                NO_STATUS,
            )
            .map_err(failed)
    }
}

impl Peer for DustPeer {
    type Writer = DustWriter;
    type Reader = DustReader;

    fn open(options: &PeerOptions) -> PeerResult<DustPeer> {
        let factory = DomainParticipantFactory::get_instance();
        factory
            .get_mut_transport()
            .set_udp_receive_buffer_size(Some(SOCKET_BUFFER))
            .set_fragment_size(FRAGMENT)
            .map_err(failed)?;
        let participant = factory
            .create_participant(0, QosKind::Default, NO_LISTENER, NO_STATUS)
            .map_err(failed)?;
        Ok(DustPeer { participant, size: options.size })
    }

    /// The writer keeps the last samples: a reliable writer of dust_dds waits until the oldest one
    /// is acknowledged. One that keeps all has no limit that makes it wait.
    fn writer(&self, topic: &str, _readers: usize) -> PeerResult<DustWriter> {
        let publisher = self
            .participant
            .create_publisher(QosKind::Default, NO_LISTENER, NO_STATUS)
            .map_err(failed)?;
        let samples = (HISTORY_BYTES / self.size).clamp(FEWEST_SAMPLES, MOST_SAMPLES);
        let qos = DataWriterQos {
            reliability: reliability(),
            history: HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepLast(samples as u32) },
            ..Default::default()
        };
        let topic = self.topic(topic)?;
        let writer = publisher
            .create_datawriter(&topic, QosKind::Specific(qos), NO_LISTENER, NO_STATUS)
            .map_err(failed)?;
        Ok(DustWriter { writer })
    }

    fn reader(&self, topic: &str, _readers: usize) -> PeerResult<DustReader> {
        let subscriber = self
            .participant
            .create_subscriber(QosKind::Default, NO_LISTENER, NO_STATUS)
            .map_err(failed)?;
        let qos = DataReaderQos {
            reliability: reliability(),
            history: HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepAll },
            ..Default::default()
        };
        let topic = self.topic(topic)?;
        let reader = subscriber
            .create_datareader(&topic, QosKind::Specific(qos), NO_LISTENER, NO_STATUS)
            .map_err(failed)?;
        let condition = reader.get_statuscondition();
        condition.set_enabled_statuses(&[StatusKind::DataAvailable]).map_err(failed)?;
        let mut wait_set = WaitSet::new();
        wait_set.attach_condition(Condition::StatusCondition(condition.clone())).map_err(failed)?;
        Ok(DustReader { reader, wait_set, _condition: condition })
    }
}

impl PeerWriter for DustWriter {
    fn matched(&mut self) -> PeerResult<usize> {
        let status = self.writer.get_publication_matched_status().map_err(failed)?;
        Ok(usize::try_from(status.current_count)?)
    }

    fn send(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) -> PeerResult<()> {
        let mut bytes = vec![0; size];
        fill(&mut bytes);
        self.writer.write(BytesSample { bytes }, None).map_err(failed)
    }

    fn finish(&mut self) -> PeerResult<()> {
        let limit = DdsDuration::new(STALL_SECONDS, 0);
        self.writer.wait_for_acknowledgments(limit).map_err(failed)
    }
}

impl DustReader {
    fn take(&self, each: &mut impl FnMut(&[u8])) -> PeerResult<usize> {
        let taken = self.reader.take(BATCH, ANY_SAMPLE_STATE, ANY_VIEW_STATE, ANY_INSTANCE_STATE);
        let samples = match taken {
            Err(DdsError::NoData) => return Ok(0),
            taken => taken.map_err(failed)?,
        };
        let samples = samples.iter().filter_map(|sample| sample.data.as_ref());
        Ok(samples.map(|sample| each(&sample.bytes)).count())
    }
}

impl PeerReader for DustReader {
    fn matched(&mut self) -> PeerResult<usize> {
        let status = self.reader.get_subscription_matched_status().map_err(failed)?;
        Ok(usize::try_from(status.current_count)?)
    }

    fn receive(&mut self, limit: Duration, mut each: impl FnMut(&[u8])) -> PeerResult<usize> {
        let messages = self.take(&mut each)?;
        if messages > 0 {
            return Ok(messages);
        }
        let limit = DdsDuration::new(limit.as_secs() as i32, limit.subsec_nanos());
        match self.wait_set.wait(limit) {
            Err(DdsError::Timeout) => return Ok(0),
            waited => waited.map_err(failed)?,
        };
        self.take(&mut each)
    }
}

fn main() -> PeerResult<()> {
    peer_protocol::run::<DustPeer>()
}
