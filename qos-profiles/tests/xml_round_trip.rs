//! A resolved profile that is written is read back as the same values. For any change to files,
//! reading ends with profiles or with errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use qos_profiles::xml::{Property, QosProvider, ResolvedProfile};
use qos_profiles::{EntityKind, EntityQos, FieldType, Length, Value};

/// Returns any value of a field in written form, with the value.
fn written(ty: FieldType) -> BoxedStrategy<String> {
    let one = |names: &'static qos_profiles::Names| {
        (0..names.count()).prop_map(|at| names.constant(at).unwrap())
    };
    let list = |item: BoxedStrategy<String>| {
        prop::collection::vec(item, 0..4).prop_map(|items| {
            items.into_iter().map(|item| format!("<element>{item}</element>")).collect::<String>()
        })
    };
    match ty {
        FieldType::Bool => any::<bool>().prop_map(|value| value.to_string()).boxed(),
        FieldType::Unsigned => (1..=i32::MAX).prop_map(|value| value.to_string()).boxed(),
        FieldType::Signed => any::<i32>().prop_map(|value| value.to_string()).boxed(),
        FieldType::Length => (-1..1000i32).prop_map(|value| value.to_string()).boxed(),
        FieldType::Duration => prop_oneof![
            Just("DURATION_INFINITE".to_owned()),
            (0..i32::MAX, 0..1_000_000_000)
                .prop_map(|(sec, nanosec)| format!("<sec>{sec}</sec><nanosec>{nanosec}</nanosec>")),
        ]
        .boxed(),
        FieldType::Kind(names) => one(names).boxed(),
        FieldType::Octets => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|bytes| bytes.iter().map(|byte| format!("{byte},")).collect())
            .boxed(),
        FieldType::Texts => {
            list("[ -~äöü\u{1f600}\t\u{85}]{0,12}".prop_map(|text| escaped(&text)).boxed()).boxed()
        }
        FieldType::Kinds(names) => list(one(names).boxed()).boxed(),
    }
}

fn escaped(text: &str) -> String {
    text.chars().map(|letter| format!("&#{};", u32::from(letter))).collect()
}

/// Returns a set of policies of any kind, in which each field is present or not.
fn set() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(EntityKind::ALL.to_vec());
    let attributes = prop::option::of("[a-zA-Z &<>'é.*?]{0,8}[a-zA-Z]");
    (kinds, attributes.clone(), attributes).prop_flat_map(|(kind, name, filter)| {
        let policies: Vec<BoxedStrategy<String>> = kind
            .policies()
            .map(|(policy, name)| {
                let fields: Vec<BoxedStrategy<String>> = policy
                    .fields()
                    .iter()
                    .map(|field| {
                        let name = field.name;
                        prop::option::weighted(0.6, written(field.ty))
                            .prop_map(move |text| {
                                text.map_or(String::new(), |text| {
                                    format!("<{name}>{text}</{name}>")
                                })
                            })
                            .boxed()
                    })
                    .collect();
                fields
                    .prop_map(move |fields| format!("<{name}>{}</{name}>", fields.concat()))
                    .boxed()
            })
            .collect();
        let properties = prop::collection::btree_map("[a-z.&<]{1,9}", "[ -~é]{0,9}", 0..3)
            .prop_map(|properties| {
                let items = properties.iter().map(|(name, value)| {
                    format!(
                        "<element><name>{}</name><value>{}</value></element>",
                        escaped(name),
                        escaped(value)
                    )
                });
                format!("<property><value>{}</value></property>", items.collect::<String>())
            });
        (policies, properties).prop_map(move |(policies, properties)| {
            let element = kind.element();
            let mut start = format!("<{element}");
            if let Some(name) = &name {
                start += &format!(" name=\"{}\"", escaped(name.trim()));
            }
            if let Some(filter) = filter.as_ref().filter(|_| kind.has_topic()) {
                start += &format!(" topic_filter=\"{}\"", escaped(filter));
            }
            format!("{start}>{}{properties}</{element}>", policies.concat())
        })
    })
}

/// Name, filter, policies and properties of a set.
type Values<'a> = (Option<&'a str>, Option<&'a str>, &'a EntityQos, &'a [Property]);

/// Returns the values without their origins.
fn values(profile: &ResolvedProfile) -> Vec<Values<'_>> {
    let entities = profile.entities.iter();
    entities
        .map(|entity| {
            (
                entity.name.as_deref(),
                entity.topic_filter.as_deref(),
                &entity.qos,
                &*entity.properties,
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_profile_is_read_back_with_same_values(sets in prop::collection::vec(set(), 1..4), in_library: bool) {
        let profile = format!("<qos_profile name=\"P &amp; Q\" base_name=\"Squall::Latency\">{}</qos_profile>", sets.concat());
        let (text, name) = match in_library {
            true => (format!("<qos_library name=\"L&lt;1&gt;\">{profile}</qos_library>"), "L<1>::P & Q"),
            false => (format!("<dds>{profile}</dds>"), "P & Q"),
        };
        // Contradictory or duplicate sets are not a valid profile to write.
        if let Ok(provider) = QosProvider::from_str(&text) {
            let profile = provider.profile(name).unwrap();
            let again = support::provider(&profile.to_xml()).profile(name).unwrap();
            prop_assert_eq!(values(&profile), values(&again));
            prop_assert_eq!(profile.to_xml(), again.to_xml());
        }
    }
}

#[test]
fn enough_generated_profiles_are_valid() {
    // With few valid profiles the property would test little.
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let sound = (0..200)
        .filter(|_| {
            let inside = set().new_tree(&mut runner).unwrap().current();
            QosProvider::from_str(&format!(
                "<dds><qos_profile name=\"P\">{inside}</qos_profile></dds>"
            ))
            .is_ok()
        })
        .count();
    assert!(sound > 60, "{sound} of 200");
}

#[test]
fn extreme_values_survive_xml_round_trip() {
    let text = support::file(
        EntityKind::DataWriter,
        "<history><depth>2147483647</depth></history><user_data><value/></user_data>\
         <resource_limits><max_samples>2147483647</max_samples></resource_limits>\
         <representation><value/></representation>\
         <lifespan><duration><sec>2147483646</sec><nanosec>999999999</nanosec></duration></lifespan>",
    );
    let profile = support::provider(&text).profile("L::P").unwrap();
    let again = support::provider(&profile.to_xml()).profile("L::P").unwrap();
    assert_eq!(values(&profile), values(&again));
    let writer = support::provider(&profile.to_xml()).datawriter_qos("L::P").unwrap();
    assert_eq!(
        (writer.history.depth, writer.resource_limits.max_samples),
        (2_147_483_647, Length::new(i32::MAX).unwrap())
    );
}

/// Pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// Pieces to insert into files: some with a meaning, some without.
const PIECES: [&str; 32] = [
    "<",
    ">",
    "/",
    "\"",
    "'",
    "&",
    "&amp;",
    "&#0;",
    "&#x10ffff;",
    "&x;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml version=\"1.0\"?>",
    "<?p ",
    "?>",
    "<!DOCTYPE x [",
    "]>",
    "xmlns:a=\"b\"",
    "<a:b/>",
    "\u{0}",
    "\u{feff}",
    "\u{fffe}",
    "é",
    "-1",
    "99999999999999999999",
    "base_name=\"P\"",
    "name=\"P\"",
    "<qos_profile name=\"P\" base_name=\"P\">",
    "</qos_profile>",
    "LENGTH_UNLIMITED",
];

/// Runs for 8 seconds, or for the number of seconds in `SQUALL_FUZZ_SECONDS`.
#[test]
fn parser_does_not_panic_on_mutated_file() {
    let seconds = std::env::var("SQUALL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(8));
    // The names of the ready-made profiles are taken.
    let own = |text: &str| {
        text.replace("qos_library name=\"Squall", "qos_library name=\"Own").into_bytes()
    };
    let whole = support::provider("<dds/>");
    let ready_made = whole.profile_names();
    let seeds: Vec<Vec<u8>> = vec![
        own(include_str!("../profiles/avionics.xml")),
        own(include_str!("../profiles/levels.xml")),
        support::file(
            EntityKind::DataReader,
            "<type_consistency><kind>ALLOW_TYPE_COERCION</kind></type_consistency>",
        )
        .into_bytes(),
        own(&whole.profile("Squall::Logged").unwrap().to_xml()),
        support::file(
            EntityKind::DataWriter,
            "<property><value><element><name>a</name><value>b</value></element></value></property>",
        )
        .into_bytes(),
    ];
    for seed in &seeds {
        support::provider(std::str::from_utf8(seed).unwrap());
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut rounds, mut sound) = (0, 0);
    while Instant::now() < end {
        let mut bytes = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            match dice.below(6) {
                0 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
                1 => bytes[at] ^= 1 << dice.below(8),
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let to = (at + dice.below(40)).min(bytes.len());
                    bytes.drain(at..to);
                    bytes.push(b' ');
                }
                4 => {
                    let (from, length) = (dice.below(bytes.len()), dice.below(200));
                    let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let piece = PIECES[dice.below(PIECES.len())];
                    bytes.splice(at..at, piece.bytes());
                }
            }
        }
        rounds += 1;
        // A text that is not UTF-8 has a test of its own.
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(provider) = QosProvider::from_str(&text) {
            sound += 1;
            for name in provider.profile_names() {
                if !ready_made.contains(&name) {
                    let profile = provider.profile(&name).unwrap();
                    let again = support::provider(&profile.to_xml()).profile(&name).unwrap();
                    assert_eq!(values(&profile), values(&again), "{text}");
                }
            }
        }
    }
    assert!(rounds > 50 && sound > 0, "{rounds} rounds, {sound} sound");
    println!("{rounds} rounds, {sound} sound");
}

#[test]
fn displayed_text_value_is_quoted_and_escaped() {
    let field = qos_profiles::PolicyId::Partition.fields()[0];
    assert_eq!(field.show(&Value::Texts(vec!["a\"b".to_owned()])).to_string(), "\"a\\\"b\"");
}
