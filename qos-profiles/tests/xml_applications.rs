//! Applications in files: each element and each rule, in a valid and in an invalid form.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::{ParticipantDescription, QosProvider};
use qos_profiles::{EntityKind, EntityQos, OwnershipQosPolicyKind};
use support::{errors, provider};

/// Returns the IDL of the types, read from a file.
fn idl(types: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xml");
    std::fs::write(&file, format!("<dds><types>{types}</types></dds>")).unwrap();
    let mut text = String::new();
    QosProvider::from_files_with([file], |read| {
        text = read.text.idl().to_owned();
        Vec::new()
    })
    .unwrap_or_else(|errors| panic!("{errors}\nin:\n{types}"));
    text.replace('\n', " ").trim_end().to_owned()
}

#[test]
fn each_xml_type_element_is_translated_to_idl() {
    let member =
        |attributes: &str| format!("<struct name=\"S\"><member name=\"m\" {attributes}/></struct>");
    let of_member = |text: &str| format!("struct _S {{ {text}; }};");
    for (attributes, expected) in [
        ("type=\"int32\"", "int32 _m"),
        ("type=\"long\"", "int32 _m"),
        ("type=\"unsignedLongLong\"", "uint64 _m"),
        ("type=\"byte\"", "octet _m"),
        ("type=\"char8\"", "char _m"),
        ("type=\"char16\"", "wchar _m"),
        ("type=\"float32\"", "float _m"),
        ("type=\"float64\" key=\"true\"", "@key double _m"),
        ("type=\"boolean\" optional=\"1\"", "@optional boolean _m"),
        ("type=\"float128\" key=\"false\"", "long double _m"),
        ("type=\"string\"", "string _m"),
        ("type=\"string\" stringMaxLength=\"-1\"", "string _m"),
        ("type=\"string\" stringMaxLength=\"2 * MOST\"", "string<2 * MOST> _m"),
        ("type=\"wstring\" stringMaxLength=\"8\"", "wstring<8> _m"),
        ("type=\"nonBasic\" nonBasicTypeName=\"A::B\"", "_A::_B _m"),
        ("type=\"nonBasic\" nonBasicTypeName=\"::long\"", "::_long _m"),
        ("type=\"int8\" sequenceMaxLength=\"-1\"", "sequence<int8> _m"),
        ("type=\"int8\" sequenceMaxLength=\"5\"", "sequence<int8, 5> _m"),
        ("type=\"int8\" arrayDimensions=\"2,N + 1\"", "int8 _m[2][N + 1]"),
        ("type=\"int8\" sequenceMaxLength=\"5\" arrayDimensions=\"3\"", "sequence<int8, 5> _m[3]"),
        ("type=\"int8\" mapKeyType=\"int16\"", "map<int16, int8> _m"),
        (
            "type=\"int8\" key_type=\"string\" mapKeyStringMaxLength=\"4\" mapMaxLength=\"9\"",
            "map<string<4>, int8, 9> _m",
        ),
        ("type=\"int8\" mapKeyType=\"nonBasic\" mapKeyNonBasicTypeName=\"E\"", "map<_E, int8> _m"),
        ("type=\"int8\" id=\"7\" mustUnderstand=\"true\"", "@must_understand @id(7) int8 _m"),
        ("type=\"int8\" external=\"true\" hashid=\"\"", "@external @hashid int8 _m"),
        ("type=\"int8\" hashid=\"n\" must_understand=\"0\"", "@hashid(\"n\") int8 _m"),
        ("type=\"int8\" default=\"-3\"", "@default(-3) int8 _m"),
        ("type=\"boolean\" default=\"true\"", "@default(TRUE) boolean _m"),
        ("type=\"string\" default='a\"\\b'", "@default(\"a\\\"\\\\b\") string _m"),
        ("type=\"char8\" default=\"'\"", "@default('\\'') char _m"),
        ("type=\"string\" tryConstruct=\"trim\"", "@try_construct(TRIM) string _m"),
        ("type=\"string\" try_construct=\"USE_DEFAULT\"", "@try_construct(USE_DEFAULT) string _m"),
    ] {
        assert_eq!(idl(&member(attributes)), of_member(expected), "{attributes}");
    }
    for (types, expected) in [
        ("", ""),
        (
            "<struct name=\"S\" baseType=\"A::B\" extensibility=\"mutable\"/>",
            "@mutable struct _S : _A::_B { };",
        ),
        (
            "<struct name=\"S\" extensibility=\"final\" nested=\"true\"/>",
            "@final @nested struct _S { };",
        ),
        (
            "<struct name=\"S\" extensibility=\"EXTENSIBLE_EXTENSIBILITY\"/>",
            "@appendable struct _S { };",
        ),
        (
            "<struct name=\"S\" topLevel=\"false\" autoid=\"hash\"/>",
            "@nested @autoid(HASH) struct _S { };",
        ),
        (
            "<struct name=\"S\" topLevel=\"true\" autoid=\"SEQUENTIAL\"/>",
            "@autoid(SEQUENTIAL) struct _S { };",
        ),
        (
            "<module name=\"A\"><module name=\"B\"><struct name=\"S\"/></module></module>",
            "module _A { module _B { struct _S { }; }; };",
        ),
        ("<type><struct name=\"S\"/></type>", "struct _S { };"),
        (
            "<enum name=\"E\" bitBound=\"8\"><enumerator name=\"A\"/><enumerator name=\"B\" value=\"4\" defaultLiteral=\"true\"/></enum>",
            "@bit_bound(8) enum _E { _A , @default_literal @value(4) _B };",
        ),
        (
            "<bitmask name=\"M\" bit_bound=\"4\"><bit_value name=\"a\" position=\"3\"/><flag name=\"b\"/></bitmask>",
            "@bit_bound(4) bitmask _M { @position(3) _a , _b };",
        ),
        (
            "<bitset name=\"B\" baseType=\"C\"><bitfield name=\"a\" bitBound=\"3\"/><bitfield bit_bound=\"2\"/><bitfield name=\"c\" bitBound=\"9\" type=\"uint16\"/></bitset>",
            "bitset _B : _C { bitfield<3> _a; bitfield<2>; bitfield<9, uint16> _c; };",
        ),
        (
            "<union name=\"U\" extensibility=\"final\"><discriminator type=\"char8\" key=\"true\"/><case><caseDiscriminator value=\"a\"/><caseDiscriminator value=\"'b'\"/><member name=\"x\" type=\"int8\" id=\"4\"/></case><case><caseDiscriminator value=\"default\"/><member name=\"y\" type=\"int16\"/></case></union>",
            "@final union _U switch (@key char) { case 'a': case 'b': @id(4) int8 _x; default: int16 _y; };",
        ),
        (
            "<union name=\"U\"><discriminator type=\"nonBasic\" nonBasicTypeName=\"E\"/><case><caseDiscriminator value=\"A\"/><member name=\"x\" type=\"int8\"/></case></union>",
            "union _U switch (_E) { case A: int8 _x; };",
        ),
        ("<typedef name=\"T\" type=\"int8\" arrayDimensions=\"4\"/>", "typedef int8 _T[4];"),
        (
            "<const name=\"N\" type=\"int32\" value=\"1 + (2 * K)\"/>",
            "const int32 _N = 1 + (2 * K);",
        ),
        ("<const name=\"N\" type=\"string\" value='\"a\"'/>", "const string _N = \"a\";"),
        ("<const name=\"N\" type=\"wstring\" value=\"a;//\"/>", "const wstring _N = L\"a;//\";"),
        ("<const name=\"N\" type=\"boolean\" value=\"false\"/>", "const boolean _N = FALSE;"),
        (
            "<const name=\"N\" type=\"nonBasic\" nonBasicTypeName=\"E\" value=\"A\"/>",
            "const _E _N = A;",
        ),
        (
            "<forward_dcl name=\"S\" kind=\"struct\"/><forward_dcl name=\"U\" kind=\"union\"/>",
            "struct _S; union _U;",
        ),
    ] {
        assert_eq!(idl(types), expected, "{types}");
    }
}

#[test]
fn error_in_xml_type_is_reported_with_position_and_reason() {
    let member =
        |attributes: &str| format!("<struct name=\"S\"><member name=\"m\" {attributes}/></struct>");
    let cases = [
        ("<strukt name=\"S\"/>".to_owned(), "/strukt[S]: found an unknown element; expected `module`, `struct`"),
        ("<struct/>".to_owned(), "/struct: found no attribute `name`; expected one"),
        ("<struct name=\"1\"/>".to_owned(), "/struct[1]: name: found `1`; expected a letter, then letters"),
        ("<struct name=\"a;b\"/>".to_owned(), "/struct[a;b]: name: found `a;b`; expected a letter"),
        ("<struct name=\"S\" color=\"x\"/>".to_owned(), "/struct[S]: found the unknown attribute `color`; expected `name`"),
        ("<struct name=\"S\" baseType=\"A B\"/>".to_owned(), "/struct[S]: baseType: found `A B`; expected a name"),
        ("<struct name=\"S\" extensibility=\"mutabel\"/>".to_owned(), "extensibility: found `mutabel`; expected `final`, `appendable` or `mutable`; did you mean `mutable`?"),
        ("<struct name=\"S\" nested=\"maybe\"/>".to_owned(), "/struct[S]: nested: found `maybe`; expected `true` or `false`"),
        ("<struct name=\"S\" autoid=\"x\"/>".to_owned(), "autoid: found `x`; expected `sequential` or `hash`"),
        ("<struct name=\"S\">x</struct>".to_owned(), "/struct[S]: found the text `x`; expected elements alone"),
        ("<struct name=\"S\"><membre name=\"m\"/></struct>".to_owned(), "/struct[S]/membre[m]: found an unknown element; expected `member`; did you mean `member`?"),
        (member(""), "/member[m]: found no attribute `type`"),
        (member("type=\"int23\""), "/member[m]: type: found `int23`; expected a basic type such as `int32`, `float64` or `string`, or `nonBasic` with the type's name in `nonBasicTypeName`; did you mean `int32`?"),
        (member("type=\"nonBasic\""), "found no attribute `nonBasicTypeName`"),
        (member("type=\"int8\" nonBasicTypeName=\"A\""), "found `nonBasicTypeName` beside the type `int8`"),
        (member("type=\"int8\" stringMaxLength=\"4\""), "found `stringMaxLength`; expected it of a string alone"),
        (member("type=\"string\" stringMaxLength=\"4> x; long\""), "stringMaxLength: found `4> x; long`; expected a number"),
        (member("type=\"string\" stringMaxLength=\"(4\""), "stringMaxLength: found `(4`"),
        (member("type=\"int8\" arrayDimensions=\"2,,3\""), "arrayDimensions: found nothing"),
        (member("type=\"int8\" arrayDimensions=\"2/*\""), "arrayDimensions: found `2/*`"),
        (member("type=\"int8\" sequenceMaxLength=\"x y//\""), "sequenceMaxLength: found `x y//`"),
        (member("type=\"int8\" sequenceMaxLength=\"4\" mapKeyType=\"int8\""), "found both `mapKeyType` and `sequenceMaxLength`"),
        (member("type=\"int8\" mapMaxLength=\"4\""), "found `mapMaxLength`; expected it beside `mapKeyType`"),
        (member("type=\"int8\" mapKeyType=\"int8\" key_type=\"int8\""), "found both `mapKeyType` and `key_type`"),
        (member("type=\"int8\" mapKeyType=\"in8\""), "mapKeyType: found `in8`"),
        (member("type=\"int8\" key=\"yes\""), "key: found `yes`; expected `true` or `false`"),
        (member("type=\"int8\" id=\"#\""), "id: found `#`"),
        (member("type=\"boolean\" default=\"2\""), "default: found `2`; expected `true` or `false`"),
        (member("type=\"string\" default=\"a&#10;b\""), "expected printable letters"),
        (member("type=\"string\" tryConstruct=\"trimm\""), "tryConstruct: found `trimm`; expected `DISCARD`, `USE_DEFAULT` or `TRIM`; did you mean `TRIM`?"),
        ("<struct name=\"S\"><member name=\"m\" type=\"int8\"><x/></member></struct>".to_owned(), "/member[m]/x: found an unknown element; expected attributes alone"),
        ("<module name=\"A\"><include file=\"a.xml\"/></module>".to_owned(), "/include: found an include inside another element"),
        ("<include/>".to_owned(), "/include: found no attribute `file`"),
        ("<include file=\"there is none.xml\"/>".to_owned(), "/include: found `there is none.xml`, which cannot be read"),
        ("<enum name=\"E\"><enumerater name=\"A\"/></enum>".to_owned(), "found an unknown element; expected `enumerator`; did you mean `enumerator`?"),
        ("<enum name=\"E\"><enumerator name=\"A\" value=\"a,b\"/></enum>".to_owned(), "/enumerator[A]: value: found `a,b`"),
        ("<bitmask name=\"E\"><enumerator name=\"A\"/></bitmask>".to_owned(), "found an unknown element; expected `bit_value` or `flag`"),
        ("<bitset name=\"E\"><bitfield name=\"a\"/></bitset>".to_owned(), "/bitfield[a]: found no attribute `bitBound`"),
        ("<bitset name=\"E\"><bits name=\"a\"/></bitset>".to_owned(), "/bits[a]: found an unknown element; expected `bitfield`"),
        ("<union name=\"U\"/>".to_owned(), "/union[U]: found a union without `discriminator`"),
        ("<union name=\"U\"><discriminator type=\"int8\"/><discriminator type=\"int8\"/></union>".to_owned(), "/discriminator: found this element a second time"),
        ("<union name=\"U\"><discriminator type=\"int8\"/><case/></union>".to_owned(), "/case: found a case with 0 valid values and 0 members"),
        ("<union name=\"U\"><discriminator type=\"int8\"/><case><caseDiscriminator/><member name=\"m\" type=\"int8\"/></case></union>".to_owned(), "/case/caseDiscriminator: found no attribute `value`"),
        ("<typedef name=\"T\"/>".to_owned(), "/typedef[T]: found no attribute `type`"),
        ("<const name=\"N\" type=\"int8\"/>".to_owned(), "/const[N]: found no attribute `value`"),
        ("<const name=\"N\" type=\"int8\" value=\"1; struct\"/>".to_owned(), "/const[N]: value: found `1; struct`"),
        ("<forward_dcl name=\"N\" kind=\"strukt\"/>".to_owned(), "kind: found `strukt`; expected `struct` or `union`; did you mean `struct`?"),
    ];
    for (types, expected) in cases {
        let told = errors(&format!("<dds>\n<types>\n{types}</types></dds>"));
        assert!(told[0].starts_with("str:1:3:"), "{told:?}");
        assert!(told[0].contains(": dds/types/"), "{told:?}");
        assert!(told[0].contains(expected), "{types}\n{told:#?}\n{expected}");
    }
}

const FILE: &str = r#"<dds>
<qos_library name="Fleet">
  <qos_profile name="State">
    <topic_qos><ownership><kind>EXCLUSIVE</kind></ownership></topic_qos>
    <datawriter_qos><history><depth>3</depth></history></datawriter_qos>
    <datawriter_qos topic_filter="At*"><history><depth>5</depth></history></datawriter_qos>
  </qos_profile>
</qos_library>
<domain_library name="Domains">
  <domain name="Base" domain_id="3"><register_type name="A" type_ref="Nav::A"/></domain>
  <domain name="Flight" base_name="Base" domain_id="7">
    <register_type name="B"/>
    <topic name="Attitude" register_type_ref="A"><topic_qos base_name="Fleet::State"/></topic>
    <topic name="Wind" register_type_ref="B"/>
  </domain>
</domain_library>
<domain_participant_library name="Apps">
  <domain_participant name="Common" domain_ref="Domains::Flight">
    <domainparticipant_qos><user_data><value>1,2</value></user_data></domainparticipant_qos>
    <register_type name="C" type_ref="::Nav::C"/>
    <topic name="Own" register_type_ref="C"/>
    <publisher name="Air">
      <publisher_qos><partition><name><element>left</element></name></partition></publisher_qos>
      <data_writer name="Out" topic_ref="Attitude">
        <datawriter_qos base_name="Fleet::State"><deadline><period><sec>2</sec></period></deadline></datawriter_qos>
      </data_writer>
      <data_writer name="Plain" topic_ref="Wind"/>
    </publisher>
    <data_reader name="Alone" topic_ref="Own"/>
    <data_writer name="Alone" topic_ref="Own"/>
  </domain_participant>
  <domain_participant name="Left" base_name="Common" domain_id="9">
    <subscriber name="In">
      <data_reader name="Low" topic_ref="Attitude">
        <filter name="low" kind="builtin.sql"><expression>x &lt; %0</expression>
          <parameter_list><param>3</param></parameter_list></filter>
        <datareader_qos><history><depth>8</depth></history></datareader_qos>
      </data_reader>
    </subscriber>
    <data_reader name="Alone" topic_ref="Wind"><content_filter><expression>y = 1</expression></content_filter></data_reader>
  </domain_participant>
</domain_participant_library>
</dds>"#;

fn writer_depth(provider: &QosProvider, set: &str) -> u32 {
    match provider.entity(EntityKind::DataWriter, set, None).unwrap().qos {
        EntityQos::DataWriter(qos) => qos.history.depth,
        _ => unreachable!(),
    }
}

#[test]
fn participant_has_its_own_and_inherited_entities() {
    let provider = provider(FILE);
    assert_eq!(provider.participant_names(), ["Apps::Common", "Apps::Left"]);
    let left = provider.participant("Apps::Left").unwrap();
    assert_eq!((left.name.as_str(), left.domain_id), ("Apps::Left", 9));
    assert_eq!(left.qos.as_deref(), Some("Apps::Common/participant"));
    assert_eq!(left.place.line(), 32);
    let topics: Vec<(&str, &str, Option<&str>)> =
        left.topics.iter().map(|of| (&*of.name, &*of.type_name, of.qos.as_deref())).collect();
    assert_eq!(
        topics,
        [
            ("Attitude", "Nav::A", Some("Domains::Flight/Attitude")),
            ("Own", "Nav::C", None),
            ("Wind", "B", None)
        ]
    );
    let of = |left: &ParticipantDescription, publishers: bool| -> Vec<String> {
        let groups = if publishers { &left.publishers } else { &left.subscribers };
        let told = groups.iter().map(|group| {
            let inside: Vec<String> = group
                .endpoints
                .iter()
                .map(|of| {
                    format!("{}({}, {:?})", of.name, of.topic, of.qos.as_deref().unwrap_or("-"))
                })
                .collect();
            format!("{:?} {:?} {}", group.name.as_deref(), group.qos.as_deref(), inside.join(" "))
        });
        told.collect()
    };
    assert_eq!(
        of(&left, true),
        [
            "None None Alone(Own, \"-\")",
            "Some(\"Air\") Some(\"Apps::Common/Air\") Out(Attitude, \"Apps::Common/Air/Out\") Plain(Wind, \"-\")"
        ]
    );
    assert_eq!(
        of(&left, false),
        ["None None Alone(Wind, \"-\")", "Some(\"In\") None Low(Attitude, \"Apps::Left/In/Low\")"]
    );
    let filter = left.subscribers[1].endpoints[0].filter.as_ref().unwrap();
    assert_eq!((&*filter.name, &*filter.expression), ("low", "x < %0"));
    assert_eq!(filter.parameters, ["3"]);
    let unnamed = left.subscribers[0].endpoints[0].filter.as_ref().unwrap();
    assert_eq!((&*unnamed.name, &*unnamed.expression), ("Alone", "y = 1"));
    let common = provider.participant("Apps::Common").unwrap();
    assert_eq!(common.domain_id, 7);

    // The policies are those of the base for this topic, and the set's own values.
    assert_eq!(writer_depth(&provider, "Apps::Common/Air/Out"), 5);
    let out = provider.datawriter_qos("Apps::Common/Air/Out").unwrap();
    assert_eq!(out.deadline.period, qos_profiles::Duration::from_secs(2));
    let topic = provider.topic_qos("Domains::Flight/Attitude").unwrap();
    assert_eq!(topic.ownership.kind, OwnershipQosPolicyKind::Exclusive);
    let group = provider.publisher_qos("Apps::Common/Air").unwrap();
    assert_eq!(group.partition.name, ["left"]);
    assert_eq!(provider.profile_names().iter().filter(|name| name.contains('/')).count(), 0);

    let unknown = provider.participant("Left").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no participant `Left`; expected `Library::Participant`; did you mean `Apps::Left`?"
    );
}

#[test]
fn libraries_are_accepted_as_root_elements() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let files = [
        write(
            "p.xml",
            "<domain_participant_library name=\"L\"><domain_participant name=\"P\" domain_ref=\"D\"><topic name=\"T\" register_type_ref=\"S\"/></domain_participant></domain_participant_library>",
        ),
        write(
            "d.xml",
            "<domain_library name=\"L\"><domain name=\"D\" domain_id=\"0\"><register_type name=\"S\"/></domain></domain_library>",
        ),
        write("t.xml", "<types><include file=\"sub.xml\"/><struct name=\"S\"/></types>"),
        // The included file is read once, before the elements after the include.
        write(
            "sub.xml",
            "<dds><types><include file=\"t.xml\"/><include file=\"sub.xml\"/><struct name=\"Sub\"/></types></dds>",
        ),
    ];
    let mut text = String::new();
    let provider = QosProvider::from_files_with(files, |read| {
        text = read.text.idl().to_owned();
        let messages: Vec<String> = (1..=4)
            .map(|line| {
                let (place, path) = read.text.origin(line).unwrap();
                let file = place.file().rsplit('/').next().unwrap().to_owned();
                format!("{file}:{}:{} {path}", place.line(), place.column())
            })
            .collect();
        assert_eq!(
            messages,
            [
                "sub.xml:1:61 dds/types/struct[Sub]",
                "sub.xml:1:61 dds/types/struct[Sub]",
                "t.xml:1:33 types/struct[S]",
                "t.xml:1:33 types/struct[S]"
            ]
        );
        assert!(read.text.origin(0).is_none() && read.text.origin(5).is_none());
        assert_eq!(read.registered[0].type_name, "S");
        Vec::new()
    })
    .unwrap();
    assert_eq!(text, "struct _Sub {\n};\nstruct _S {\n};\n");
    assert_eq!(provider.participant("L::P").unwrap().topics[0].type_name, "S");
    provider.reload().unwrap();
}

#[test]
fn error_in_domain_or_participant_is_reported_with_position() {
    let domain = |inside: &str| format!("<domain_library name=\"L\">\n{inside}</domain_library>");
    let room = |inside: &str| {
        format!(
            "<domain_participant_library name=\"L\">\n<domain_participant name=\"P\" domain_id=\"0\">{inside}</domain_participant></domain_participant_library>"
        )
    };
    let rooms = |inside: &str| {
        format!("<domain_participant_library name=\"L\">\n{inside}</domain_participant_library>")
    };
    const P: &str = "dds/domain_participant_library[L]/domain_participant[P]";
    let types = "<register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"/>";
    let cases: Vec<(String, String)> = vec![
        ("<domain_library/>".to_owned(), "dds/domain_library: found no attribute `name`".to_owned()),
        (domain("<domian name=\"D\"/>"), "/domian[D]: found an unknown element; expected `domain`; did you mean `domain`?".to_owned()),
        (domain("<domain/>"), "/domain: found no attribute `name`".to_owned()),
        (domain("<domain name=\"a/b\"/>"), "found the name `a/b`; expected one without `/`".to_owned()),
        (domain("<domain name=\"D\" domain_id=\"233\"/>"), "domain_id: found `233`; expected a number from 0 to 232".to_owned()),
        (domain("<domain name=\"D\" domain_ref=\"E\"/>"), "found the unknown attribute `domain_ref`".to_owned()),
        (domain("<domain name=\"D\"/><domain name=\"D\"/>"), "found a second `domain` of the name `D`; the first is at str:1:2:".to_owned()),
        (domain("<domain name=\"D\" base_name=\"Bas\"/><domain name=\"Base\"/>"), "domain[D]: found the base `Bas`, which is not there; expected one of this library, or `Library::Name`; did you mean `Base`?".to_owned()),
        (domain("<domain name=\"D\" base_name=\"a::b::c\"/>"), "base_name: found `a::b::c`; expected `Name` or `Library::Name`".to_owned()),
        (domain("<domain name=\"A\" base_name=\"B\"/><domain name=\"B\" base_name=\"A\"/>"), "domain[A]: found a chain of bases that is circular or too long (L::A -> L::B -> L::A)".to_owned()),
        (domain("<domain name=\"D\">x</domain>"), "/domain[D]: found the text `x`".to_owned()),
        (domain("<domain name=\"D\"><publisher name=\"x\"/></domain>"), "/publisher[x]: found an unknown element; expected `register_type` or `topic`".to_owned()),
        (domain("<domain name=\"D\"><register_type/></domain>"), "/register_type: found no attribute `name`".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"\"/></domain>"), "name: found nothing".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><register_type name=\"S\"/></domain>"), "found a second `register_type` of the name `S`".to_owned()),
        (domain("<domain name=\"D\"><topic name=\"T\"/></domain>"), "/topic[T]: found no attribute `register_type_ref`".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"Speed\"/><topic name=\"T\" register_type_ref=\"Sped\"/></domain>"), "/domain[D]/topic[T]: register_type_ref: found `Sped`, which is not registered; expected the name of a `register_type` of this domain or participant; did you mean `Speed`?".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"/><topic name=\"T\" register_type_ref=\"S\"/></domain>"), "found a second `topic` of the name `T`".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"><topic_qos base_name=\"No\"/></topic></domain>"), "/topic[T]/topic_qos: found the base `No`, which is not there".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"><topic_qos/><topic_qos/></topic></domain>"), "/topic_qos: found this element a second time".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"><datawriter_qos/></topic></domain>"), "/datawriter_qos: found an unknown element; expected `topic_qos`".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"><topic_qos><history><depth>x</depth></history></topic_qos></topic></domain>"), "/topic_qos/history/depth: found `x`".to_owned()),
        (domain("<domain name=\"D\"><register_type name=\"S\"/><topic name=\"T\" register_type_ref=\"S\"><topic_qos><history><depth>9</depth></history><resource_limits><max_samples_per_instance>3</max_samples_per_instance></resource_limits></topic_qos></topic></domain>"), "/topic[T]/topic_qos/history: HISTORY".to_owned()),
        (rooms("<domain_participant name=\"P\"/>"), format!("{P}: found no domain; expected `domain_ref`, `domain_id`, or a base that has one")),
        (rooms("<domain_participant name=\"P\" domain_ref=\"Nowhere::D\"/>"), format!("{P}: found the domain `Nowhere::D`, which is not there")),
        (rooms("<domain_participant name=\"P\" domain_id=\"1\" base_name=\"P\"/>"), format!("{P}: found a chain of bases that is circular or too long (L::P -> L::P)")),
        (room("<topik name=\"T\"/>"), format!("{P}/topik[T]: found an unknown element")),
        (room("<topic_qos/>"), format!("{P}/topic_qos: found an unknown element")),
        (room("<domain_participant_qos/><participant_qos/>"), format!("{P}/participant_qos: found this element a second time")),
        (room("<publisher/>"), format!("{P}/publisher: found no attribute `name`")),
        (room("<publisher name=\"A\"/><publisher name=\"A\"/>"), format!("{P}/publisher[A]: found a second `publisher` of the name `A`")),
        (room("<publisher name=\"A\"><data_reader name=\"R\" topic_ref=\"T\"/></publisher>"), "/publisher[A]/data_reader[R]: found an unknown element; expected `data_writer` or `publisher_qos`".to_owned()),
        (room("<subscriber name=\"A\"><subscriber_qos/><subscriber_qos/></subscriber>"), "/subscriber_qos: found this element a second time".to_owned()),
        (room("<publisher name=\"A\"><data_writer name=\"W\"/></publisher>"), "/data_writer[W]: found no attribute `topic_ref`".to_owned()),
        (room(&format!("{types}<publisher name=\"A\"><data_writer name=\"W\" topic_ref=\"TT\"/></publisher>")), format!("{P}/publisher[A]/data_writer[W]: topic_ref: found `TT`, which is not there; expected a `topic` of this participant or of its domain; did you mean `T`?")),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"X\"/>")), format!("{P}/data_reader[R]: topic_ref: found `X`")),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"T\"/><data_reader name=\"R\" topic_ref=\"T\"/>")), "found a second `data_reader` of the name `R`".to_owned()),
        (room(&format!("{types}<data_writer name=\"W\" topic_ref=\"T\"><filter><expression>x</expression></filter></data_writer>")), "/data_writer[W]/filter: found an unknown element; expected `datawriter_qos`".to_owned()),
        (room(&format!("{types}<data_writer name=\"W\" topic_ref=\"T\"><datawriter_qos name=\"x\"/></data_writer>")), "/datawriter_qos[x]: found the unknown attribute `name`; expected `base_name`".to_owned()),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"T\"><filter/></data_reader>")), "/data_reader[R]/filter: found no `expression`".to_owned()),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"T\"><filter kind=\"regex\"><expression>x</expression></filter></data_reader>")), "kind: found `regex`; expected `builtin.sql`".to_owned()),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"T\"><filter><expression>x</expression><parameters/></filter></data_reader>")), "/parameters: found an unknown element; expected `expression` or `parameter_list`".to_owned()),
        (room(&format!("{types}<data_reader name=\"R\" topic_ref=\"T\"><filter><expression>x</expression><parameter_list><parm/></parameter_list></filter></data_reader>")), "/parameter_list/parm: found an unknown element; expected `param`; did you mean `param`?".to_owned()),
    ];
    for (inside, expected) in cases {
        let told = errors(&format!("<dds>{inside}</dds>"));
        assert!(told[0].starts_with("str:1:"), "{told:?}");
        assert!(told[0].contains(&expected), "{inside}\n{told:#?}\n{expected}");
    }
    // Several errors in one run. A participant that others inherit from may leave its domain
    // to them.
    let told = errors(&format!(
        "<dds><types><struct/></types>{}{}</dds>",
        domain("<domain name=\"D\" domain_id=\"x\"/>"),
        room("<data_writer name=\"W\" topic_ref=\"T\"/>")
    ));
    assert_eq!(told.len(), 3, "{told:?}");
    let parts = rooms(&format!(
        "<domain_participant name=\"Part\"><data_writer name=\"W\" topic_ref=\"T\"/></domain_participant>\
         <domain_participant name=\"P\" base_name=\"Part\" domain_id=\"2\">{types}</domain_participant>"
    ));
    let whole = provider(&format!("<dds>{parts}</dds>"));
    assert_eq!(whole.participant("L::P").unwrap().publishers[0].endpoints[0].topic, "T");
}

#[test]
fn excessive_bases_types_and_includes_are_rejected() {
    // Long chains of bases, and more elements of types than the limit.
    let chain: String =
        (0..2000).map(|n| format!("<domain name=\"D{n}\" base_name=\"D{}\"/>", n + 1)).collect();
    let told = errors(&format!("<dds><domain_library name=\"L\">{chain}</domain_library></dds>"));
    assert!(told.len() <= 200 && told[0].contains("found more than 256 of them"), "{}", told[0]);
    let many: String =
        (0..70_000).map(|n| format!("<typedef name=\"T{n}\" type=\"int8\"/>")).collect();
    let told = errors(&format!("<dds><types>{many}</types></dds>"));
    assert!(
        told[0].contains("found types of more than 65536 elements; expected fewer"),
        "{}",
        told[0]
    );
    let folder = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let text = format!("<types><include file=\"{}.xml\"/></types>", n + 1);
        std::fs::write(folder.path().join(format!("{n}.xml")), text).unwrap();
    }
    let told = QosProvider::from_file(folder.path().join("0.xml")).unwrap_err().to_string();
    assert!(told.contains("expected includes nested less than 16 deep"), "{told}");
}
