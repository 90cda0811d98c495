//! Malicious or damaged files: each is refused with an error, quickly, and with little memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use qos_profiles::EntityKind;
use qos_profiles::xml::QosProvider;

/// Allocator that counts the memory in use by the test's own thread, and its maximum.
struct Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending is not counted.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(in_use.get())));
    });
}

// SAFETY: every call is forwarded unchanged to the system's allocator; the counters are plain cells
// of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the errors in bytes; checks the time, and a memory use of at most 16 MiB beyond ten
/// times their size.
#[track_caller]
fn refused(bytes: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.xml");
    std::fs::write(&path, bytes).unwrap();
    let before = IN_USE.get();
    MOST.set(before);
    let start = Instant::now();
    let read = QosProvider::from_file(&path);
    let (time, memory) = (start.elapsed(), MOST.get() - before);
    // Long enough for a loaded machine, but bounded.
    assert!(time < Duration::from_secs(30), "{time:?}");
    assert!(memory < (16 << 20) + 10 * bytes.len() as isize, "{memory} bytes for {}", bytes.len());
    let file = path.to_str().unwrap();
    let errors = read.unwrap_err();
    errors.errors().iter().map(|error| error.to_string().replace(file, "f.xml")).collect()
}

const NO_DOCTYPE: &str = "found a document type declaration; expected none: entities are not expanded, \
                          and nothing is read from elsewhere";
const LIMITS: &str = "found a name, attribute, text or list of attributes beyond the limits; expected \
                      names of 256 bytes, 16 attributes of 4096 bytes and texts of 1048576 bytes at most";

#[test]
fn parser_rejects_document_type_declaration_and_unknown_entity() {
    let mut laughs = "<!DOCTYPE dds [<!ENTITY a0 \"ha\">".to_owned();
    for n in 1..30 {
        laughs += &format!("<!ENTITY a{n} \"&a{};&a{};&a{};\">", n - 1, n - 1, n - 1);
    }
    laughs += "]>\n<dds><qos_library name=\"&a29;\"/></dds>";
    assert_eq!(refused(laughs.as_bytes()), [format!("f.xml:1:1: {NO_DOCTYPE}")]);
    let outside = "<?xml version=\"1.0\"?>\n<!DOCTYPE dds [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<dds>&x;</dds>";
    assert_eq!(refused(outside.as_bytes()), [format!("f.xml:2:1: {NO_DOCTYPE}")]);
    let outside = "<!DOCTYPE dds SYSTEM \"http://example.com/dds.dtd\"><dds/>";
    assert_eq!(refused(outside.as_bytes()), [format!("f.xml:1:1: {NO_DOCTYPE}")]);
    let parameter = "<!DOCTYPE dds [<!ENTITY % p SYSTEM \"file:///etc/passwd\"> %p;]><dds/>";
    assert_eq!(refused(parameter.as_bytes()).len(), 1);
    let unknown = refused(b"<dds>&x;</dds>");
    assert!(unknown.len() == 1 && unknown[0].contains("entity: x"), "{unknown:?}");
    let endless = "<!DOCTYPE dds [".to_owned() + &"<!ENTITY a \"b\">".repeat(200_000);
    assert_eq!(refused(endless.as_bytes()).len(), 1);
}

#[test]
fn element_nesting_is_limited() {
    let deep =
        |depth: usize| format!("<dds>{}{}</dds>", "<log>".repeat(depth), "</log>".repeat(depth));
    assert!(QosProvider::from_str(&deep(23)).is_ok());
    let inner = "/log".repeat(23);
    let expected =
        [format!("f.xml:1:121: dds{inner}: found elements nested 25 deep; expected 24 at most")];
    for depth in [24, 1_000_000] {
        let messages: Vec<String> = refused(deep(depth).as_bytes());
        assert_eq!(messages, expected);
    }
    // The same depth in a set of policies, where elements are stored.
    let deep = support::file(EntityKind::Topic, &"<history>".repeat(100_000));
    let histories = "/history".repeat(20);
    assert_eq!(
        refused(deep.as_bytes()),
        [format!(
            "f.xml:5:181: dds/qos_library/qos_profile/topic_qos{histories}: found elements nested 25 \
             deep; expected 24 at most"
        )]
    );
}

#[test]
fn sizes_of_names_attributes_texts_and_files_are_limited() {
    let huge = "x".repeat(8 << 20);
    for text in [
        format!("<dds a=\"{huge}\"/>"),
        format!("<{huge}/>"),
        format!("<dds {huge}=\"a\"/>"),
        support::file(
            EntityKind::Topic,
            &format!("<topic_data><value>{huge}</value></topic_data>"),
        ),
    ] {
        let told = refused(text.as_bytes());
        assert!(told.len() == 1 && told[0].ends_with(LIMITS), "{told:?}");
    }
    let many: String = (0..100_000).map(|n| format!(" a{n}=\"x\"")).collect();
    let told = refused(format!("<dds{many}/>").as_bytes());
    assert!(told.len() == 1 && told[0].ends_with(LIMITS), "{told:?}");
    let many = support::file(EntityKind::Topic, &"<x/>".repeat(2 << 20));
    let told = refused(many.as_bytes());
    assert_eq!(
        told,
        [
            "f.xml:5:262145: dds/qos_library/qos_profile/topic_qos/x: found more than 65536 elements in one; expected fewer"
        ]
    );
    let large = vec![b' '; (32 << 20) + 5];
    assert_eq!(refused(&large), ["f.xml: the file has 33554433 bytes; expected 33554432 at most"]);
    // Elements of other products are skipped, however many there are.
    let others = format!("<dds><log>{}</log></dds>", "<x/>".repeat(1 << 20));
    assert!(QosProvider::from_str(&others).is_ok());
}

#[test]
fn non_utf8_byte_is_reported_with_position() {
    assert_eq!(
        refused(b"<dds>\n<!-- \xc3\xa4\xff -->\n</dds>"),
        ["f.xml:2:7: found the byte 0xff, which is not UTF-8; expected a file in UTF-8"]
    );
    assert_eq!(
        refused(b"<dds>\xc3"),
        ["f.xml:1:6: found the byte 0xc3, which is not UTF-8; expected a file in UTF-8"]
    );
    assert_eq!(
        refused(b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><dds/>"),
        ["f.xml:1:1: found the encoding `ISO-8859-1`; expected UTF-8"]
    );
    let utf_16: Vec<u8> = "<dds/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(refused(&utf_16).len(), 1);
    assert_eq!(
        refused(&[&[0xff, 0xfe][..], &utf_16].concat()),
        ["f.xml:1:1: found the byte 0xff, which is not UTF-8; expected a file in UTF-8"]
    );
}

#[test]
fn xml_syntax_error_is_reported_together_with_earlier_errors() {
    assert_eq!(refused(b"").len(), 1);
    assert_eq!(refused(b"dds").len(), 1);
    assert_eq!(refused(b"<dds>").len(), 1);
    let told = refused(b"<dds>\n<x/>\n<qos_library name=\"L\">\n</dds>");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("f.xml:2:1: dds/x: found an unknown element"), "{told:?}");
    assert!(told[1].starts_with("f.xml:4:"), "{told:?}");
}

#[test]
fn hostile_profile_references_are_rejected_within_time_limit() {
    // Each profile has the previous one as its base twice: 2^40 paths.
    let twice: String = (1..40)
        .map(|n| {
            let m = n - 1;
            format!("<qos_profile name=\"P{n}\" base_name=\"P{m}\"><base_name><element>P{m}</element></base_name><topic_qos/></qos_profile>")
        })
        .collect();
    let told = refused(format!("<dds><qos_library name=\"L\"><qos_profile name=\"P0\"><topic_qos/></qos_profile>{twice}</qos_library></dds>").as_bytes());
    assert!(
        told.iter().all(|error| error.contains("found a chain of more than 32 bases")),
        "{told:?}"
    );
    // A chain of many thousands, and a ring of the same length.
    for first in ["", " base_name=\"P20000\""] {
        let chain: String = (1..=20_000)
            .map(|n| {
                format!(
                    "<qos_profile name=\"P{n}\" base_name=\"P{}\"><topic_qos/></qos_profile>",
                    n - 1
                )
            })
            .collect();
        let text = format!(
            "<qos_library name=\"L\"><qos_profile name=\"P0\"{first}/>{chain}</qos_library>"
        );
        let told = refused(text.as_bytes());
        assert!(!told.is_empty() && told[0].len() < 1000, "{told:?}");
    }
    // Many sets, each with the maximum number of sets in its base.
    let sets: String = (0..256).map(|n| format!("<topic_qos name=\"S{n}\"/>")).collect();
    let all: String = (0..300)
        .map(|n| format!("<qos_profile name=\"P{n}\" base_name=\"P\">{sets}</qos_profile>"))
        .collect();
    let text = format!(
        "<qos_library name=\"L\"><x/><qos_profile name=\"P\">{sets}</qos_profile>{all}</qos_library>"
    );
    assert_eq!(refused(text.as_bytes()).len(), 1);
}
