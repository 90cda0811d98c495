//! iceoryx2 by the measuring protocol: polling, or with an event for each message
//! (`--variant events`).

use std::time::{Duration, Instant};

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use peer_protocol::{Peer, PeerOptions, PeerReader, PeerResult, PeerWriter};

/// Maximum bytes of the messages in the buffer of a subscriber.
const BUFFER_BYTES: usize = 16 << 20;
/// Maximum number of messages in the buffer of a subscriber.
const BUFFER_MESSAGES: usize = 1024;
/// Minimum number of messages in the buffer of a subscriber.
const FEWEST_BUFFERED: usize = 8;
/// Number of polls after which other processes may run: there may be more of them than cores.
const POLLS: u32 = 1000;

struct IceoryxPeer {
    node: Node<ipc::Service>,
    size: usize,
    has_events: bool,
}

type MessageService = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type EventService = event::PortFactory<ipc::Service>;

struct IceoryxWriter {
    service: MessageService,
    publisher: Publisher<ipc::Service, [u8], ()>,
    event: Option<(EventService, Notifier<ipc::Service>)>,
}

struct IceoryxReader {
    service: MessageService,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    event: Option<(EventService, Listener<ipc::Service>)>,
}

impl IceoryxPeer {
    fn messages(&self, topic: &str, readers: usize) -> PeerResult<MessageService> {
        let buffered = (BUFFER_BYTES / self.size).clamp(FEWEST_BUFFERED, BUFFER_MESSAGES);
        let builder = self.node.service_builder(&topic.try_into()?).publish_subscribe::<[u8]>();
        Ok(builder
            .enable_safe_overflow(false)
            .history_size(0)
            .subscriber_max_buffer_size(buffered)
            .max_publishers(1)
            .max_subscribers(readers)
            .max_nodes(readers + 1)
            .open_or_create()?)
    }

    fn events(&self, topic: &str, readers: usize) -> PeerResult<Option<EventService>> {
        if !self.has_events {
            return Ok(None);
        }
        let builder = self.node.service_builder(&topic.try_into()?).event();
        let service = builder
            .max_notifiers(1)
            .max_listeners(readers)
            .max_nodes(readers + 1)
            .open_or_create()?;
        Ok(Some(service))
    }
}

impl Peer for IceoryxPeer {
    type Writer = IceoryxWriter;
    type Reader = IceoryxReader;

    fn open(options: &PeerOptions) -> PeerResult<IceoryxPeer> {
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        // Files of one session do not mix with those of others, and can be told from them.
        let folder = std::env::temp_dir().join("iceoryx2");
        config.global.set_root_path(&Path::new(folder.as_os_str().as_encoded_bytes())?);
        config.global.prefix = FileName::new(format!("{}_", options.session).as_bytes())?;
        let node = NodeBuilder::new()
            .config(&config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()?;
        Ok(IceoryxPeer { node, size: options.size, has_events: options.variant == "events" })
    }

    fn writer(&self, topic: &str, readers: usize) -> PeerResult<IceoryxWriter> {
        let service = self.messages(topic, readers)?;
        let publisher = service
            .publisher_builder()
            .initial_max_slice_len(self.size)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let event = match self.events(topic, readers)? {
            Some(events) => {
                let notifier = events.notifier_builder().create()?;
                Some((events, notifier))
            }
            None => None,
        };
        Ok(IceoryxWriter { service, publisher, event })
    }

    fn reader(&self, topic: &str, readers: usize) -> PeerResult<IceoryxReader> {
        let service = self.messages(topic, readers)?;
        let event = match self.events(topic, readers)? {
            Some(events) => {
                let listener = events.listener_builder().create()?;
                Some((events, listener))
            }
            None => None,
        };
        let subscriber = service.subscriber_builder().create()?;
        Ok(IceoryxReader { service, subscriber, event })
    }
}

impl PeerWriter for IceoryxWriter {
    fn matched(&mut self) -> PeerResult<usize> {
        self.publisher.update_connections()?;
        Ok(self.service.dynamic_config().number_of_subscribers())
    }

    fn send(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) -> PeerResult<()> {
        let mut sample = self.publisher.loan_slice_uninit(size)?;
        let bytes = sample.payload_mut();
        // SAFETY: `fill` writes all bytes of the slice and reads none before; any byte pattern is
        // a valid `u8`. The slice lives no longer than the loan.
        fill(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) });
        // SAFETY: `fill` has written all bytes.
        unsafe { sample.assume_init() }.send()?;
        if let Some((_, notifier)) = &self.event {
            notifier.notify()?;
        }
        Ok(())
    }
}

impl IceoryxReader {
    fn take(&self, each: &mut impl FnMut(&[u8])) -> PeerResult<usize> {
        let mut messages = 0;
        while let Some(sample) = self.subscriber.receive()? {
            each(sample.payload());
            messages += 1;
        }
        Ok(messages)
    }
}

impl PeerReader for IceoryxReader {
    fn matched(&mut self) -> PeerResult<usize> {
        // Connects to the publisher, which has sent nothing yet.
        self.subscriber.update_connections()?;
        Ok(self.service.dynamic_config().number_of_publishers())
    }

    fn receive(&mut self, limit: Duration, mut each: impl FnMut(&[u8])) -> PeerResult<usize> {
        let deadline = Instant::now() + limit;
        loop {
            let messages = self.take(&mut each)?;
            if messages > 0 || Instant::now() >= deadline {
                return Ok(messages);
            }
            match &self.event {
                Some((_, listener)) => {
                    listener.timed_wait(|_| (), limit)?;
                }
                None => {
                    for _ in 0..POLLS {
                        if self.subscriber.has_samples()? {
                            break;
                        }
                        std::hint::spin_loop();
                    }
                    if !self.subscriber.has_samples()? {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }
}

fn main() -> PeerResult<()> {
    peer_protocol::run::<IceoryxPeer>()
}
