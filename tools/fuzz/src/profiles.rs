//! QoS profiles and applications in XML: a file is refused with positions in it, or its profiles
//! can be written and read again as the same, and its types are valid IDL.

use std::io::{Seek, SeekFrom, Write};

use idl_xtypes::{DynamicType, topic_types};
use qos_profiles::xml::{ProfileErrors, QosProvider, ResolvedProfile};
use tempfile::NamedTempFile;

use crate::outcome::{Outcome, OutcomeBuilder};

/// Words of the elements and their contents.
pub(crate) const WORDS: &[&str] = &[
    "<dds>",
    "</dds>",
    "<qos_library name=\"L\">",
    "</qos_library>",
    "<qos_profile name=\"P\">",
    "</qos_profile>",
    "<qos_profile name=\"Q\" base_name=\"P\" is_default_qos=\"true\">",
    " base_name=\"Squall::Atomic\"",
    " topic_filter=\"*[a-c]?\"",
    " name=\"N\"",
    "<datawriter_qos>",
    "</datawriter_qos>",
    "<datareader_qos/>",
    "<topic_qos>",
    "</topic_qos>",
    "<history><kind>KEEP_LAST_HISTORY_QOS</kind><depth>3</depth></history>",
    "<deadline><period><sec>1</sec><nanosec>5</nanosec></period></deadline>",
    "DURATION_INFINITE",
    "LENGTH_UNLIMITED",
    "<user_data><value>1,0xff</value></user_data>",
    "<representation><value><element>XCDR2_DATA_REPRESENTATION</element></value></representation>",
    "<property><value><element><name>a</name><value>b</value></element></value></property>",
    "<partition><name><element>a*</element></name></partition>",
    "<types>",
    "</types>",
    "<module name=\"M\">",
    "</module>",
    "<struct name=\"S\">",
    "</struct>",
    "<member name=\"m\" type=\"int32\" key=\"true\"/>",
    "<member name=\"n\" type=\"nonBasic\" nonBasicTypeName=\"S\"/>",
    "<enum name=\"E\"><enumerator name=\"A\"/></enum>",
    "<union name=\"U\">",
    "<discriminator type=\"int32\"/>",
    "<case><caseDiscriminator value=\"1\"/>",
    "</case>",
    "</union>",
    "<typedef name=\"T\" type=\"string\" stringMaxLength=\"9\"/>",
    "<const name=\"C\" type=\"int32\" value=\"3 + 4\"/>",
    "<domain_library name=\"D\">",
    "<domain name=\"X\" domain_id=\"0\">",
    "<register_type name=\"S\" type_ref=\"S\"/>",
    "<topic name=\"T\" register_type_ref=\"S\"/>",
    "<domain_participant name=\"A\" domain_ref=\"D::X\">",
    "<publisher name=\"p\">",
    "<data_writer name=\"w\" topic_ref=\"T\"/>",
    "<subscriber>",
    "<data_reader name=\"r\" topic_ref=\"T\">",
    "<content_filter name=\"f\"><expression>m > 1</expression></content_filter>",
    "<",
    ">",
    "/>",
    "&amp;",
    "&#0;",
    "&#x10ffff;",
    "&x;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version=\"1.0\"?>",
    "<!DOCTYPE dds>",
    "-1",
    "0",
    "4294967296",
    "true",
    "\u{feff}",
];

thread_local! {
    static FILE: NamedTempFile = NamedTempFile::new().expect("a file in the folder for temporary ones");
}

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let mut from_types = OutcomeBuilder::default();
    let read = FILE.with(|file| {
        let mut open = file.as_file();
        open.set_len(0).and_then(|()| open.seek(SeekFrom::Start(0))).expect("our own file");
        open.write_all(bytes).expect("our own file");
        QosProvider::from_files_with([file.path()], |said| {
            match idl::parse("types", said.text.idl()) {
                Ok(specification) => {
                    let names = topic_types(&specification);
                    for of in
                        DynamicType::all_from_idl(&specification, names.iter().map(String::as_str))
                    {
                        from_types.said(
                            &of.map_or_else(|error| error.to_string(), |of| format!("{of:?}")),
                        );
                    }
                }
                Err(told) => {
                    for told in told.iter() {
                        from_types.said(&told.message).kind(said.text.origin(told.line).is_some());
                    }
                }
            }
            Vec::new()
        })
    });
    outcome.kind(from_types.outcome());
    match read {
        Ok(provider) => sound(&provider, &mut outcome),
        Err(errors) => refused(&errors, &mut outcome),
    }
    outcome.outcome()
}

fn refused(errors: &ProfileErrors, outcome: &mut OutcomeBuilder) {
    assert!(!errors.errors().is_empty(), "a file is refused without an error");
    for error in errors.errors() {
        outcome.said(&error.found).said(&error.expected);
    }
    drop(errors.to_string());
}

fn sound(provider: &QosProvider, outcome: &mut OutcomeBuilder) {
    let names = provider.profile_names();
    outcome.kind(true).size(names.len());
    for name in names.iter().filter(|name| !name.starts_with("Squall")) {
        let profile = provider.profile(name).expect("a profile that is listed");
        let again = QosProvider::from_str(&profile.to_xml()).unwrap_or_else(|errors| {
            panic!("its own text is refused: {errors}: {}", profile.to_xml())
        });
        let again = again.profile(name).expect("a profile that was written");
        assert_eq!(values(&profile), values(&again), "{}", profile.to_xml());
        outcome.size(profile.entities.len());
    }
    for name in provider.participant_names() {
        let described = provider.participant(&name).expect("a participant that is listed");
        outcome.size(described.topics.len()).size(described.publishers.len());
    }
    outcome.size(provider.ignored().len());
}

/// Returns the values of a profile without their origins.
fn values(profile: &ResolvedProfile) -> Vec<String> {
    let entities = profile.entities.iter();
    let text = entities.map(|entity| {
        format!(
            "{:?} {:?} {:?} {:?}",
            entity.name, entity.topic_filter, entity.qos, entity.properties
        )
    });
    text.collect()
}
