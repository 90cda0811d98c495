//! A group of real processes over shared memory: they found it themselves, all write and read one
//! topic at full rate, and are killed one after the other. Each writes its deliveries to a file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use dds_transport_rdma::shm::ShmLink;
use derecho_core::bytes::Wire;
use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::registry::{Layout, LayoutMember};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupConfig, GroupEvent, ReplicatedState,
    SubgroupRegions, control_geometry,
};
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::{Link, LinkError};
use derecho_core::machine::{Effects, Machine, PostKind};
use derecho_core::membership::View;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
use derecho_core::node::{ACKS, ACKS_WORDS, Node};
use support::{ChildNode, TestDomain, config, print_line, role};

const TOPIC: u64 = 7;
/// Bytes of one line of the file of deliveries: epoch, writer, number, time.
const LINE: usize = 32;

/// Participants of the topic: the regions of each one's lines and stream.
#[derive(Default)]
struct TopicParticipants(BTreeMap<NodeId, (RegionId, RegionId)>);

impl ReplicatedState for TopicParticipants {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        self.0.extend(Wire::from_bytes(message).map(|part| (from, part)));
        vec![TOPIC]
    }

    fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    fn keys(&self) -> Vec<u64> {
        vec![TOPIC]
    }

    fn layout(&self, _: u64, view: &View) -> Layout {
        let seats = view.members.iter().filter_map(|member| {
            let (lines, stream) = *self.0.get(&member.node)?;
            Some(LayoutMember { node: member.node, reads: true, sends: Some(stream), lines })
        });
        Layout { level: DeliveryGuarantee::Atomic, members: seats.collect() }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.iter().map(|(node, part)| (*node, *part)).collect::<Vec<_>>().to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let parts = Vec::from_bytes(bytes);
        self.0 = parts.iter().flatten().copied().collect();
        parts.is_some()
    }
}

fn nanos() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// One process: a link, a group over it, a writer and a reader.
struct GroupProcess {
    link: ShmLink,
    group: Group<TopicParticipants>,
    effects: Effects,
    memory: SenderMemory,
    inbox: Option<Arc<Inbox>>,
    epoch: u64,
    members: usize,
    written: u64,
    file: File,
}

impl GroupProcess {
    fn new(index: &str, folder: &Path) -> GroupProcess {
        let mut link = ShmLink::join(config(folder)).unwrap();
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let mut node = Node::new(link.node(), acks, Arc::new(|| {}));
        let mut share = |lines, stream, geometry: Geometry| {
            let region = link.open(lines, SUBGROUP_LINES * LINE_WORDS).unwrap();
            let memory = link.open(stream, geometry.words()).unwrap();
            let memory = SenderMemory::with_nulls(memory, geometry);
            SubgroupRegions { lines: (lines, region), memory: Some((stream, memory)) }
        };
        let control = share(CONTROL_LINES, CONTROL_STREAM, control_geometry());
        let (lines, stream) = (node.fresh_region(), node.fresh_region());
        let topic = share(lines, stream, Geometry::fitting(1 << 16, 256, 64).unwrap());
        let memory = topic.memory.as_ref().unwrap().1.clone();
        let terms = GroupConfig {
            join_mode: JoinMode::Local,
            weight: 1,
            timeouts: MemberTimeouts::default(),
            ablation: Ablation::default(),
        };
        let arbiter = link.arbiter().unwrap();
        let host = HostInterface { arbiter, is_halted: Arc::new(|_| false) };
        let mut group = Group::new(node, terms, TopicParticipants::default(), control, Some(host));
        group.add_regions(TOPIC, topic);
        group.submit(&(lines, stream).to_bytes());
        let file = File::create(log_of(folder, index)).unwrap();
        let effects = Effects::new();
        GroupProcess {
            link,
            group,
            effects,
            memory,
            inbox: None,
            epoch: 0,
            members: 0,
            written: 0,
            file,
        }
    }

    fn turn(&mut self, now: Time) -> usize {
        let GroupProcess { link, group, effects, .. } = self;
        link.poll(&mut |event| group.handle(event, effects));
        let done = group.turn(now, effects);
        self.perform();
        let mut begun = Vec::new();
        while let Some(event) = self.group.next_event() {
            match event {
                GroupEvent::Begun { key: TOPIC, subgroup, epoch, .. } => {
                    begun.push((subgroup, epoch))
                }
                GroupEvent::Installed(view) => self.members = view.members.len(),
                GroupEvent::Out(fate) => panic!("this process is out: {fate:?}"),
                _ => {}
            }
        }
        // Deliveries of this turn belong to the previous epoch.
        self.deliver();
        for (subgroup, epoch) in begun {
            self.epoch = epoch;
            if self.inbox.is_none() {
                self.inbox = self.group.node_mut().add_subgroup_reader(subgroup);
            }
        }
        done
    }

    fn perform(&mut self) {
        let GroupProcess { link, effects, .. } = self;
        for post in effects.take_posts() {
            let done = match post.kind {
                PostKind::Write(region, range) => link.write(post.peer, region, range),
                PostKind::Read(..) => unreachable!("groups read nothing"),
                PostKind::Note(bytes) => link.note(post.peer, &bytes),
            };
            assert!(matches!(done, Ok(()) | Err(LinkError::PeerGone(_))), "{done:?}");
        }
        link.ring(effects.touched(), effects.hinted());
        effects.clear();
    }

    fn deliver(&mut self) {
        let Some(inbox) = &self.inbox else { return };
        let mut lines = Vec::new();
        while let Some(record) = inbox.take() {
            lines.extend_from_slice(&self.epoch.to_le_bytes());
            lines.extend_from_slice(&record.bytes()[..16]);
            lines.extend_from_slice(&nanos().to_le_bytes());
        }
        if !lines.is_empty() {
            self.file.write_all(&lines).unwrap();
        }
    }

    fn write(&mut self, index: u64) {
        if self.inbox.is_some()
            && let Ok(mut claim) = self.memory.claim(16)
        {
            claim.bytes()[..8].copy_from_slice(&index.to_le_bytes());
            claim.bytes()[8..].copy_from_slice(&self.written.to_le_bytes());
            claim.commit(16, |_, _| {});
            self.written += 1;
        }
    }
}

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((index, folder)) = role() else { return };
    let mut process = GroupProcess::new(&index, &folder);
    let index = index.parse().unwrap();
    let signalled = Arc::new(AtomicBool::new(false));
    let listener = Arc::clone(&signalled);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().lines().next();
        listener.store(true, Ordering::Release);
    });
    let (start, mut said, mut quiet) = (nanos(), 0, 0);
    while quiet < 3000 {
        let done = process.turn(Time(nanos() - start));
        if !signalled.load(Ordering::Acquire) {
            process.write(index);
        } else {
            quiet = if done == 0 { quiet + 1 } else { 0 };
        }
        if process.members != said && process.inbox.is_some() {
            said = process.members;
            print_line(&format!("{said}"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    print_line(&format!("written {}", process.written));
}

/// File to which a process writes its deliveries: beside the folder in which the links meet.
fn log_of(folder: &Path, index: &str) -> PathBuf {
    folder.with_file_name(format!("deliveries-{index}"))
}

/// Line of the file: epoch, writer, number, time.
type Delivery = (u64, u64, u64, u64);

fn deliveries(folder: &Path, index: usize) -> Vec<Delivery> {
    let bytes = std::fs::read(log_of(folder, &index.to_string())).unwrap();
    let word = |line: &[u8], at: usize| u64::from_le_bytes(line[at..at + 8].try_into().unwrap());
    let lines = bytes.chunks_exact(LINE);
    lines.map(|line| (word(line, 0), word(line, 8), word(line, 16), word(line, 24))).collect()
}

/// Checks the rules of delivery over the files of all processes.
fn judge(logs: &[Vec<Delivery>], survivors: &[usize], written: &BTreeMap<u64, u64>) {
    let mut epochs: BTreeMap<u64, Vec<Vec<(u64, u64)>>> = BTreeMap::new();
    for log in logs {
        let mut mine: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for &(epoch, writer, number, _) in log {
            if let Some(last) = last.insert(writer, number) {
                assert_eq!(last + 1, number, "no gap and no double from {writer}");
            }
            mine.entry(epoch).or_default().push((writer, number));
        }
        mine.into_iter().for_each(|(epoch, order)| epochs.entry(epoch).or_default().push(order));
    }
    for (epoch, orders) in &epochs {
        let longest = orders.iter().max_by_key(|order| order.len()).unwrap();
        for order in orders {
            assert!(longest.starts_with(order), "one order in epoch {epoch}");
        }
    }
    for &index in survivors {
        let own: BTreeMap<u64, usize> =
            logs[index].iter().fold(BTreeMap::new(), |mut count, line| {
                *count.entry(line.0).or_default() += 1;
                count
            });
        for (epoch, count) in &own {
            let most = epochs[epoch].iter().map(Vec::len).max().unwrap();
            assert_eq!(*count, most, "survivor {index} has all of epoch {epoch}");
        }
        for (writer, count) in written {
            let last = logs[index].iter().rfind(|line| line.1 == *writer).map(|line| line.2 + 1);
            assert_eq!(last, Some(*count), "survivor {index} has all of {writer}");
        }
    }
}

/// Returns the time from `killed` to the first delivery of a later epoch.
fn resumed(log: &[Delivery], killed: u64) -> u64 {
    let before = log.iter().take_while(|line| line.3 < killed).last().map_or(0, |line| line.0);
    let next = log.iter().find(|line| line.3 >= killed && line.0 > before).unwrap();
    next.3 - killed
}

#[test]
fn survivors_deliver_all_samples_in_one_order_after_kills() {
    let mut pauses = Vec::new();
    for round in 0..8 {
        let meeting = TestDomain::new();
        let folder = meeting.runtime_dir();
        let mut child_nodes: Vec<ChildNode> =
            (0..3).map(|index| ChildNode::start(&index.to_string(), &folder)).collect();
        child_nodes.iter_mut().for_each(|child_node| while child_node.hear() != "3" {});
        let mut survivors = vec![0, 1, 2];
        let mut kills = Vec::new();
        for left in [2, 1] {
            std::thread::sleep(Duration::from_millis(10 + 7 * round));
            let victim = survivors.remove((round as usize + left) % survivors.len());
            kills.push(nanos());
            child_nodes[victim].kill();
            for &index in &survivors {
                while child_nodes[index].hear() != left.to_string() {}
            }
        }
        std::thread::sleep(Duration::from_millis(10));
        let mut written = BTreeMap::new();
        for &index in &survivors {
            child_nodes[index].tell("stop");
            let child_line = loop {
                let child_line = child_nodes[index].hear();
                if let Some(count) = child_line.strip_prefix("written ") {
                    break count.parse().unwrap();
                }
            };
            written.insert(index as u64, child_line);
        }
        let logs: Vec<Vec<Delivery>> = (0..3).map(|index| deliveries(&folder, index)).collect();
        judge(&logs, &survivors, &written);
        let last = &logs[survivors[0]];
        assert!(last.len() > 100, "only {} deliveries", last.len());
        pauses.extend(kills.iter().map(|killed| resumed(last, *killed)));
    }
    pauses.sort_unstable();
    let micros = |nanos: u64| nanos / 1000;
    let median = pauses[pauses.len() / 2];
    print_line(&format!("from SIGKILL to the first delivery: median {} us", micros(median)));
    // Not a measurement; a value far above this limit would mean that the death went unnoticed.
    assert!(median < 500_000_000, "{pauses:?}");
}
