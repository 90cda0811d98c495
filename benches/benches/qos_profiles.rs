//! Reading of profiles: a file of 5 MB with a thousand profiles, beside a plain pass of the XML
//! reader over it in the same run, and the memory used.
//!
//! `cargo bench -p squall-benches --bench qos_profiles`

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use qos_profiles::EntityKind;
use qos_profiles::xml::QosProvider;
use xml::reader::{EventReader, XmlEvent};

/// Allocator that counts the bytes in use, and their maximum.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator; the counters touch no
// other memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PROFILES: usize = 1000;
const ROUNDS: usize = 15;

/// Returns a thousand profiles that inherit in chains of ten; every entity of each has policies of
/// its own.
fn file() -> String {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<dds>\n  <qos_library name=\"Fleet\">\n");
    for number in 0..PROFILES {
        let base = match number % 10 {
            0 => "Squall::Atomic".to_owned(),
            _ => format!("Profile{}", number - 1),
        };
        let _ = writeln!(text, "    <qos_profile name=\"Profile{number}\" base_name=\"{base}\">");
        for kind in EntityKind::ALL {
            entity(&mut text, kind, number);
        }
        text.push_str("    </qos_profile>\n");
    }
    text + "  </qos_library>\n</dds>\n"
}

fn entity(text: &mut String, kind: EntityKind, number: usize) {
    let element = kind.element();
    let _ = writeln!(text, "      <{element}>");
    let has = |name: &str| kind.policies().any(|(_, own)| own == name);
    let millis = 20 + number % 900;
    for (name, inner) in [
        ("user_data", format!("<value>{number:08}</value>")),
        (
            "partition",
            format!("<name><element>wing/{number}</element><element>all</element></name>"),
        ),
        (
            "entity_factory",
            "<autoenable_created_entities>true</autoenable_created_entities>".to_owned(),
        ),
        (
            "deadline",
            format!("<period><sec>{number}</sec><nanosec>{millis}000000</nanosec></period>"),
        ),
        ("latency_budget", "<duration><sec>0</sec><nanosec>5000</nanosec></duration>".to_owned()),
        (
            "liveliness",
            "<kind>AUTOMATIC_LIVELINESS_QOS</kind><lease_duration><sec>DURATION_INFINITE_SEC</sec>\
             <nanosec>DURATION_INFINITE_NSEC</nanosec></lease_duration>"
                .to_owned(),
        ),
        (
            "resource_limits",
            "<max_samples>LENGTH_UNLIMITED</max_samples><max_instances>1000</max_instances>\
             <max_samples_per_instance>500</max_samples_per_instance>"
                .to_owned(),
        ),
        (
            "durability_service",
            "<history_kind>KEEP_LAST_HISTORY_QOS</history_kind><history_depth>20</history_depth>\
             <max_samples>LENGTH_UNLIMITED</max_samples><max_instances>1000</max_instances>\
             <service_cleanup_delay><sec>60</sec><nanosec>0</nanosec></service_cleanup_delay>"
                .to_owned(),
        ),
        ("destination_order", "<kind>BY_SOURCE_TIMESTAMP_DESTINATIONORDER_QOS</kind>".to_owned()),
        ("group_data", "<value>c3F1YWxs</value>".to_owned()),
        ("history", "<kind>KEEP_LAST_HISTORY_QOS</kind><depth>100</depth>".to_owned()),
    ] {
        if has(name) {
            let _ = writeln!(text, "        <!-- how long, how many, how often -->");
            let _ = writeln!(text, "        <{name}>{inner}</{name}>");
        }
    }
    let _ = writeln!(text, "      </{element}>");
}

fn bare(text: &str) -> usize {
    let mut events = EventReader::new(text.as_bytes());
    let mut count = 0;
    loop {
        match events.next() {
            Ok(XmlEvent::EndDocument) => return count,
            Ok(_) => count += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let text = file();
    let (mut reader, mut whole) = (Vec::new(), Vec::new());
    let mut memory = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let events = bare(&text);
        reader.push(start.elapsed().as_secs_f64());
        assert!(events > PROFILES);

        let before = IN_USE.load(Relaxed);
        MOST.store(before, Relaxed);
        let start = Instant::now();
        let provider = QosProvider::from_str(&text).expect("the file is sound");
        for number in 0..PROFILES {
            let name = format!("Fleet::Profile{number}");
            let profile = provider.profile(&name).expect("the profile is there");
            assert_eq!(profile.entities.len(), 6);
        }
        whole.push(start.elapsed().as_secs_f64());
        memory = memory.max(MOST.load(Relaxed) - before);
    }
    let size = text.len() as f64;
    let (reader, whole) = (median(reader), median(whole));
    println!("profiles: {PROFILES}, bytes: {}, rounds: {ROUNDS}", text.len());
    println!("bare xml pass: {:.1} ms ({:.1} MB/s)", reader * 1e3, size / reader / 1e6);
    println!(
        "read, checked, every profile resolved: {:.1} ms, {:.2} of it",
        whole * 1e3,
        whole / reader
    );
    println!("most memory: {:.1} MB, {:.2} of the file", memory as f64 / 1e6, memory as f64 / size);
}
