//! Applications from files: participants that communicate with each other and with a program
//! compiled with their types, and errors in types and filters.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support::{PATIENCE, SOON, TestDomain};
use dds_api::domain::{Application, ApplicationFiles};
use dds_api::prelude::*;
use dds_api::qos::xml::QosProvider;
use dds_api::types::{DynamicData, DynamicType, Value};

/// Types of the example as a program declares them.
mod compiled {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Avionics::Attitude", extensibility = "appendable")]
    pub(crate) struct Attitude {
        #[dds(key)]
        pub(crate) aircraft: u32,
        pub(crate) pitch: f64,
        pub(crate) roll: f64,
        pub(crate) yaw: f64,
    }

    #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
    #[dds(name = "Avionics::Severity")]
    #[allow(clippy::upper_case_acronyms, reason = "the names that the file has")]
    pub(crate) enum Severity {
        ADVISORY,
        CAUTION,
        WARNING,
    }

    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Avionics::Alarm", extensibility = "appendable")]
    pub(crate) struct Alarm {
        #[dds(key)]
        pub(crate) code: u32,
        pub(crate) severity: Severity,
        #[dds(bound = 64)]
        pub(crate) text: String,
    }
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/applications.xml")
}

fn config(domain: &TestDomain) -> ParticipantConfig {
    ParticipantConfig::new().runtime_dir(domain.runtime_dir())
}

fn alarm(of: &DynamicType, code: u32, severity: &str, text: &str) -> DynamicData {
    let text = format!("{{code: {code}, severity: {severity:?}, text: {text:?}}}");
    DynamicData::parse(of, &text).unwrap()
}

#[test]
fn xml_applications_communicate_with_each_other_and_compiled_program() {
    let domain = TestDomain::new();
    {
        let sensor =
            DomainParticipant::from_xml_with([example()], "Applications::Sensor", config(&domain))
                .unwrap();
        let display =
            DomainParticipant::from_xml_with([example()], "Applications::Display", config(&domain))
                .unwrap();
        let program =
            DomainParticipant::with_config(0, config(&domain).qos_files([example()])).unwrap();
        let profile = "SquallAvionics::PeriodicState";
        let topic =
            program.topic::<compiled::Attitude>("Attitude").profile(profile).create().unwrap();
        let attitudes = program.reader(&topic).create().unwrap();
        let topic = program
            .topic::<compiled::Alarm>("Alarms")
            .profile("SquallAvionics::Alarm")
            .create()
            .unwrap();
        let (alarms, to_alarms) =
            (program.reader(&topic).create().unwrap(), program.writer(&topic).create().unwrap());

        assert_eq!(sensor.name(), "Applications::Sensor");
        assert_eq!(sensor.participant().domain_id(), 0);
        let writer = sensor.writer("Air::Attitude").unwrap();
        let reader = display.reader("Screen::Attitude").unwrap();
        writer.wait_for_readers(2, SOON).unwrap();
        // Attitudes expire at once, so they are written until each reader has received one.
        let mut attitude = DynamicData::new(&sensor.dynamic_type("Attitude").unwrap());
        attitude.set("aircraft", Value::Unsigned(7)).unwrap();
        let (mut shown, mut seen) = (None, None);
        let deadline = Instant::now() + PATIENCE;
        for step in 1.. {
            assert!(Instant::now() < deadline, "{shown:?}, {seen:?}");
            attitude.set("pitch", Value::Double(f64::from(step))).unwrap();
            writer.write(&attitude).unwrap();
            if let Some(sample) = reader.take_next_data(Timeout::millis(20)).unwrap() {
                shown = Some(sample.to_json());
            }
            if let Some(sample) = attitudes.take_next_data(Timeout::millis(20)).unwrap() {
                seen = Some(sample.clone());
            }
            if shown.is_some() && seen.is_some() {
                break;
            }
        }
        assert!(shown.unwrap().contains("\"aircraft\": 7"));
        let seen = seen.unwrap();
        assert!(seen.aircraft == 7 && seen.pitch >= 1.0);

        // The display shows the warnings among the alarms of the file's application and of
        // the program.
        let of = sensor.dynamic_type("Alarms").unwrap();
        let writer = sensor.writer("Air::Alarms").unwrap();
        writer.write(&alarm(&of, 1, "CAUTION", "icing")).unwrap();
        writer.write(&alarm(&of, 2, "WARNING", "stall")).unwrap();
        let text = "fire".to_owned();
        to_alarms
            .write(&compiled::Alarm { code: 3, severity: compiled::Severity::WARNING, text })
            .unwrap();
        let warnings = display.reader("Screen::Warnings").unwrap();
        let (mut shown, mut all) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + PATIENCE;
        while shown.len() < 2 || all.len() < 3 {
            assert!(Instant::now() < deadline, "{shown:?}, {all:?}");
            shown.extend(
                warnings.take_data(.., Timeout::millis(20)).unwrap().map(|sample| sample.to_json()),
            );
            all.extend(
                alarms.take_data(.., Timeout::millis(20)).unwrap().map(|sample| sample.clone()),
            );
        }
        assert!(warnings.take_next_data(Timeout::millis(50)).unwrap().is_none());
        assert!(shown.iter().any(|text| text.contains("stall")), "{shown:?}");
        assert!(shown.iter().any(|text| text.contains("fire")), "{shown:?}");
        assert!(all.iter().any(|alarm| alarm.code == 1 && alarm.text == "icing"), "{all:?}");
        assert_eq!(
            all.iter().find(|alarm| alarm.code == 2).unwrap().severity,
            compiled::Severity::WARNING
        );

        // The filter now has another parameter.
        let filter = display.filter("Screen::Warnings").unwrap();
        filter.set_expression_parameters(&["'CAUTION'".to_owned()]).unwrap();
        writer.write(&alarm(&of, 4, "WARNING", "stall")).unwrap();
        writer.write(&alarm(&of, 5, "CAUTION", "fuel")).unwrap();
        let shown = warnings.take_next_data(SOON).unwrap().unwrap();
        assert!(shown.to_json().contains("\"code\": 5"), "{}", shown.to_json());
    }
    domain.assert_empty();
}

/// A file of these parts in a folder of its own.
struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> File {
        let file = File(tempfile::tempdir().unwrap());
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("a.xml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }
}

const NUMBERS: &str =
    r#"<types><struct name="Number"><member name="n" type="int32"/></struct></types>"#;

/// Returns an application with a writer and a reader in groups, and one of each outside of groups.
fn numbers(deadline: u32) -> String {
    numbers_of(deadline, "sleeping")
}

fn numbers_of(deadline: u32, waiting: &str) -> String {
    format!(
        r#"<dds>{NUMBERS}<domain_participant_library name="L"><domain_participant name="P" domain_id="4">
<register_type name="Number"/>
<topic name="Numbers" register_type_ref="Number"><topic_qos><reliability><kind>RELIABLE</kind></reliability></topic_qos></topic>
<publisher name="Out"><publisher_qos><partition><name><element>left</element></name></partition></publisher_qos>
<data_writer name="W" topic_ref="Numbers"><datawriter_qos><deadline><period><sec>{deadline}</sec></period></deadline></datawriter_qos></data_writer></publisher>
<subscriber name="In"><subscriber_qos><partition><name><element>left</element></name></partition></subscriber_qos>
<data_reader name="R" topic_ref="Numbers"/></subscriber>
<data_writer name="Alone" topic_ref="Numbers"/><data_reader name="Alone" topic_ref="Numbers"/>
<participant_qos><user_data><value>1,2</value></user_data>
<property><value><element><name>squall.waiting</name><value>{waiting}</value></element></value></property></participant_qos>
</domain_participant></domain_participant_library></dds>"#
    )
}

fn number(application: &Application, n: i64) -> DynamicData {
    let mut sample = DynamicData::new(&application.dynamic_type("Numbers").unwrap());
    sample.set("n", Value::Signed(n)).unwrap();
    sample
}

#[test]
fn xml_entities_have_names_and_policies_and_follow_file_changes() {
    let (domain, file) = (TestDomain::new(), File::new(&numbers(9)));
    {
        let all = DomainParticipant::from_xml_with([file.path()], "L::P", config(&domain)).unwrap();
        assert_eq!(all.participant().domain_id(), 4);
        assert_eq!(all.participant().qos().user_data.value, [1, 2]);
        let writer = all.writer("Out::W").unwrap();
        assert_eq!(writer.qos().deadline.period, std::time::Duration::from_secs(9).into());
        assert_eq!(all.publisher("Out").unwrap().qos().partition.name, ["left"]);
        assert_eq!(all.subscriber("In").unwrap().readers().len(), 1);
        assert!(!all.topic("Numbers").unwrap().is_kept());
        let (alone, left) = (all.writer("Alone").unwrap(), all.reader("In::R").unwrap());
        alone.write(&number(&all, 1)).unwrap();
        writer.write(&number(&all, 2)).unwrap();
        // Partitions separate them.
        let got = left.take_next_data(SOON).unwrap().unwrap();
        assert!(got.to_json().contains("\"n\": 2"), "{}", got.to_json());
        let got = all.reader("Alone").unwrap().take_next_data(SOON).unwrap().unwrap();
        assert!(got.to_json().contains("\"n\": 1"), "{}", got.to_json());

        file.write(&numbers(5));
        let report = all.participant().reload_qos().unwrap();
        assert_eq!(report.changed.len(), 1, "{report:?}");
        assert_eq!(report.changed[0].profile, "L::P/Out/W");
        assert_eq!(writer.qos().deadline.period, std::time::Duration::from_secs(5).into());

        let error = |result: DdsResult<()>| result.unwrap_err().to_string();
        let told = error(all.writer("W").map(drop));
        assert!(
            told.contains("participant `L::P` has no writer `W`; available: `Alone`, `Out::W`"),
            "{told}"
        );
        let told = error(all.filter("In::R").map(drop));
        assert!(told.contains("has no reader with a filter `In::R`; available: none"), "{told}");
        for other in [
            all.reader("x").map(drop),
            all.topic("x").map(drop),
            all.publisher("x").map(drop),
            all.subscriber("x").map(drop),
        ] {
            assert!(error(other).contains("has no "));
        }
    }
    let refusal = |name: &str, config: ParticipantConfig| {
        DomainParticipant::from_xml_with([file.path()], name, config).err().unwrap().to_string()
    };
    let told = refusal("L::Q", config(&domain));
    assert!(
        told.contains("there is no participant `L::Q`") && told.contains("did you mean `L::P`?"),
        "{told}"
    );
    let provider = QosProvider::from_str("<dds/>").unwrap().into();
    let told = refusal("L::P", config(&domain).qos_provider(provider));
    assert!(told.contains("name its files beside those of the application"), "{told}");
    // Profiles may be in files that the configuration names.
    let profiles =
        File::new(r#"<dds><qos_library name="Q"><qos_profile name="P"/></qos_library></dds>"#);
    let based =
        File::new(&numbers(3).replace("<datawriter_qos>", "<datawriter_qos base_name=\"Q::P\">"));
    let told =
        DomainParticipant::from_xml_with([based.path()], "L::P", config(&domain)).err().unwrap();
    assert!(told.to_string().contains("found the base `Q::P`, which is not there"), "{told}");
    let more = config(&domain).qos_files([profiles.path()]);
    DomainParticipant::from_xml_with([based.path()], "L::P", more).unwrap();
    domain.assert_empty();
}

/// The values in a participant's description apply only to that participant, real-time
/// settings included.
#[test]
fn policies_in_xml_description_apply_only_to_its_participant() {
    let domain = TestDomain::new();
    let file = File::new(&numbers_of(1, "polling"));
    let all = DomainParticipant::from_xml_with([file.path()], "L::P", config(&domain)).unwrap();
    let other = DomainParticipant::with_config(4, config(&domain).qos_files([file.path()]));
    let other = other.unwrap();
    assert_eq!(all.participant().qos().user_data.value, [1, 2]);
    assert!(other.qos().user_data.value.is_empty());
    let turns = |of: &DomainParticipant| {
        let before = of.counters().turns();
        std::thread::sleep(std::time::Duration::from_millis(50));
        of.counters().turns() - before
    };
    let (polls, sleeps) = (turns(all.participant()), turns(&other));
    assert!(polls > 10 * sleeps.max(1), "{polls} turns of who polls, {sleeps} of who sleeps");
}

#[test]
fn xml_types_equal_types_of_same_idl() {
    let text = "
        module Nav {
          const int32 MOST = 3;
          enum Kind { NONE, @value(4) SOME };
          @bit_bound(8) bitmask Flags { @position(2) LATE };
          bitset Bits { bitfield<3> low; bitfield<2>; bitfield<9, uint16> high; };
          typedef double Point[MOST];
          @appendable struct Head { @key uint32 id; };
          @nested @mutable struct Part { @id(9) string<8> name; @id(4) @optional wstring more; };
          @final union Choice switch (Kind) { case NONE: int8 none; case SOME: Part some; default: boolean other; };
          @appendable struct Whole : Head {
            @default(7) int16 number; sequence<Part, 5> parts; map<string<4>, int64, 9> table; Point at[2];
            Choice choice; Flags flags; Bits bits; char letter; octet raw; @external float least; Kind kind;
          };
        };";
    let xml = r#"<dds><types><module name="Nav">
<const name="MOST" type="int32" value="3"/>
<enum name="Kind"><enumerator name="NONE"/><enumerator name="SOME" value="4"/></enum>
<bitmask name="Flags" bitBound="8"><bit_value name="LATE" position="2"/></bitmask>
<bitset name="Bits"><bitfield name="low" bitBound="3"/><bitfield bitBound="2"/><bitfield name="high" bitBound="9" type="uint16"/></bitset>
<typedef name="Point" type="float64" arrayDimensions="MOST"/>
<struct name="Head" extensibility="appendable"><member name="id" type="uint32" key="true"/></struct>
<struct name="Part" nested="true" extensibility="mutable"><member name="name" type="string" stringMaxLength="8" id="9"/><member name="more" type="wstring" id="4" optional="true"/></struct>
<union name="Choice" extensibility="final"><discriminator type="nonBasic" nonBasicTypeName="Kind"/>
<case><caseDiscriminator value="NONE"/><member name="none" type="int8"/></case>
<case><caseDiscriminator value="SOME"/><member name="some" type="nonBasic" nonBasicTypeName="Part"/></case>
<case><caseDiscriminator value="default"/><member name="other" type="boolean"/></case></union>
<struct name="Whole" baseType="Head" extensibility="appendable"><member name="number" type="int16" default="7"/>
<member name="parts" type="nonBasic" nonBasicTypeName="Nav::Part" sequenceMaxLength="5"/>
<member name="table" type="int64" mapKeyType="string" mapKeyStringMaxLength="4" mapMaxLength="9"/>
<member name="at" type="nonBasic" nonBasicTypeName="Point" arrayDimensions="2"/>
<member name="choice" type="nonBasic" nonBasicTypeName="::Nav::Choice"/>
<member name="flags" type="nonBasic" nonBasicTypeName="Flags"/><member name="bits" type="nonBasic" nonBasicTypeName="Bits"/>
<member name="letter" type="char8"/><member name="raw" type="byte"/><member name="least" type="float32" external="true"/>
<member name="kind" type="nonBasic" nonBasicTypeName="Kind"/></struct>
</module></types>
<domain_library name="D"><domain name="D" domain_id="0"><register_type name="W" type_ref="Nav::Whole"/><register_type name="C" type_ref="::Nav::Choice"/></domain></domain_library></dds>"#;
    let file = File::new(xml);
    let files =
        ApplicationFiles::from_files([file.path()]).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(files.type_names().collect::<Vec<_>>(), ["Nav::Choice", "Nav::Whole"]);
    assert!(files.participant_names().is_empty());
    let specification = idl::parse("nav.idl", text).unwrap();
    for name in ["Nav::Whole", "Nav::Choice"] {
        let all = |of: &DynamicType| -> Vec<String> {
            of.named_types().iter().map(|of| format!("{:?}", of.description())).collect()
        };
        let expected = DynamicType::from_idl(&specification, name).unwrap();
        let of = files.dynamic_type(name).unwrap();
        assert_eq!(all(of), all(&expected));
        assert_eq!(DynamicData::new(of).to_json(), DynamicData::new(&expected).to_json());
    }
}

/// Returns the errors in a file.
fn errors(text: &str) -> Vec<String> {
    let file = File::new(text);
    let refusal = ApplicationFiles::from_files([file.path()]).err();
    let refusal = refusal.unwrap_or_else(|| panic!("nothing is wrong with:\n{text}"));
    let folder = format!("{}/", file.0.path().display());
    refusal.errors().iter().map(|error| error.to_string().replace(&folder, "")).collect()
}

#[test]
fn each_semantic_type_error_is_reported_with_position() {
    let types = |inside: &str| format!("<dds>\n<types>\n{inside}</types></dds>");
    let mut others = Vec::new();
    for (inside, expected) in [
        (
            r#"<struct name="S"><member name="m" type="nonBasic" nonBasicTypeName="Fixx"/></struct>"#,
            "a.xml:3:18: dds/types/struct[S]/member[m]: there is no `Fixx` here",
        ),
        (
            r#"<struct name="Fix"/><struct name="S"><member name="m" type="nonBasic" nonBasicTypeName="Fixx"/></struct>"#,
            "did you mean `Fix`?",
        ),
        (
            r#"<struct name="S"/><struct name="S"/>"#,
            "a.xml:3:19: dds/types/struct[S]: `S` is defined already in this scope; the other is at a.xml:3:1; rename one of the two",
        ),
        (
            r#"<struct name="S"><member name="a" type="int8"/><member name="a" type="int8"/></struct>"#,
            "a.xml:3:48: dds/types/struct[S]/member[a]: there is a member `a` already",
        ),
        (
            r#"<struct name="S" baseType="T"/><struct name="T" baseType="S"/>"#,
            "dds/types/struct[S]: there is no `T` here",
        ),
        (
            r#"<forward_dcl name="S" kind="struct"/><struct name="S"><member name="m" type="nonBasic" nonBasicTypeName="S"/></struct>"#,
            "dds/types/struct[S]",
        ),
        (
            r#"<struct name="S"><member name="m" type="int8" optional="true" key="true"/></struct>"#,
            "dds/types/struct[S]/member[m]: ",
        ),
        (
            r#"<struct name="S"><member name="m" type="int8" id="1"/><member name="n" type="int8" id="1"/></struct>"#,
            "dds/types/struct[S]/member[n]: ",
        ),
        (
            r#"<struct name="S"><member name="m" type="int8" arrayDimensions="0"/></struct>"#,
            "dds/types/struct[S]/member[m]: ",
        ),
        (
            r#"<struct name="S"><member name="m" type="int8" default="300"/></struct>"#,
            "dds/types/struct[S]/member[m]: ",
        ),
        (r#"<const name="N" type="int8" value="1000"/>"#, "dds/types/const[N]: "),
        (
            r#"<enum name="E"><enumerator name="A"/><enumerator name="A"/></enum>"#,
            "dds/types/enum[E]/enumerator[A]: `A` is defined already",
        ),
        (r#"<enum name="E"/>"#, "dds/types/enum[E]: "),
        (
            r#"<bitmask name="M" bitBound="4"><bit_value name="a" position="4"/></bitmask>"#,
            "dds/types/bitmask[M]/bit_value[a]: ",
        ),
        (
            r#"<bitset name="B"><bitfield name="a" bitBound="65"/></bitset>"#,
            "dds/types/bitset[B]/bitfield[a]: ",
        ),
        (
            r#"<union name="U"><discriminator type="float32"/><case><caseDiscriminator value="1"/><member name="m" type="int8"/></case></union>"#,
            "dds/types/union[U]/discriminator: a discriminator is an integer",
        ),
        (
            r#"<union name="U"><discriminator type="int8"/><case><caseDiscriminator value="1"/><caseDiscriminator value="1"/><member name="m" type="int8"/></case></union>"#,
            "dds/types/union[U]/case/caseDiscriminator: ",
        ),
        (
            r#"<module name="A"><struct name="S"/></module><typedef name="T" type="nonBasic" nonBasicTypeName="A::SS"/>"#,
            "dds/types/typedef[T]: ",
        ),
    ] {
        let told = errors(&types(inside));
        let is_told = told.iter().any(|told| told.contains(expected));
        if !is_told || !told.iter().all(|told| told.starts_with("a.xml:3:")) {
            others.push(format!("{inside}\n{told:#?}\n{expected}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    let registered = |name: &str| {
        format!(
            r#"<dds><types><module name="Nav"><struct name="Fix"/><enum name="E"><enumerator name="A"/></enum></module></types>
<domain_library name="L"><domain name="D" domain_id="0"><register_type name="x" type_ref="{name}"/></domain></domain_library></dds>"#
        )
    };
    const AT: &str =
        "a.xml:2:57: dds/domain_library[L]/domain[D]/register_type[x]: type_ref: found";
    const EXPECTED: &str =
        "expected a struct or union of these files, with its modules: `Module::Type`";
    for (name, told, meant) in [
        ("Nav::Fxi", "which is not there", "; did you mean `Nav::Fix`?"),
        ("Fix", "which is not there", "; did you mean `Nav::Fix`?"),
        ("Nav::E", "which is not a struct or union", ""),
    ] {
        let expected = format!("{AT} `{name}`, {told}; {EXPECTED}{meant}");
        assert_eq!(errors(&registered(name)), [expected]);
    }
    let filter = |expression: &str| {
        numbers(1).replace(r#"<data_reader name="R" topic_ref="Numbers"/>"#, &format!(
            "<data_reader name=\"R\" topic_ref=\"Numbers\">\n<filter><expression>{expression}</expression></filter></data_reader>"
        ))
    };
    for expression in ["m = 1", "n = 'x'", "n =", "n = %0"] {
        let told = errors(&filter(expression));
        assert_eq!(told.len(), 1, "{told:?}");
        let path = "dds/domain_participant_library[L]/domain_participant[P]/subscriber[In]/data_reader[R]/filter: the expression is wrong";
        assert!(told[0].starts_with("a.xml:8:1: ") && told[0].contains(path), "{told:?}");
    }
    // Errors in profiles, types and participants are reported in one run.
    let told = errors(
        r#"<dds><types><const name="N" type="int8" value="1000"/></types>
<qos_library name="Q"><qos_profile name="P" base_name="R"/></qos_library>
<domain_participant_library name="L"><domain_participant name="P"/></domain_participant_library></dds>"#,
    );
    assert_eq!(told.len(), 3, "{told:#?}");
}

/// A long chain of nested types is refused, and many types are read within seconds.
#[test]
fn deeply_nested_types_are_refused_and_many_types_are_read() {
    let types = |most: u32| -> String {
        let one = |n: u32| {
            let member = match n {
                0 => r#"type="int8""#.to_owned(),
                n => format!(r#"type="nonBasic" nonBasicTypeName="S{}""#, n - 1),
            };
            format!(r#"<struct name="S{n}"><member name="m" {member}/></struct>"#)
        };
        (0..most).map(one).collect()
    };
    let registered = |name: &str| {
        format!(
            r#"<domain_library name="L"><domain name="D"><register_type name="{name}"/></domain></domain_library>"#
        )
    };
    let told =
        errors(&format!("<dds><types>{}</types>{}</dds>", types(10_000), registered("S9999")));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("type_ref: found `S9999`: ") && told[0].contains("nested too deep"),
        "{told:?}"
    );
    let many =
        File::new(&format!("<dds><types>{}</types>{}</dds>", types(10_000), registered("S99")));
    ApplicationFiles::from_files([many.path()]).unwrap_or_else(|wrong| panic!("{wrong}"));
}
