//! Wrong topic attributes of types.

use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic)]
struct NoName {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic = "")]
struct EmptyName {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic = "with\0nul")]
struct NulInName {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", nested, topic = "Tracks")]
struct OfNoTopic {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", data_representation())]
struct NoRepresentation {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", data_representation(XCDR3))]
struct UnknownRepresentation {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", data_representation = "XCDR2")]
struct RepresentationAsText {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic = "Tracks")]
enum EnumOfTopic {
    A,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", data_representation(XCDR2))]
enum EnumOfRepresentation {
    A,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct OnMembers {
    #[dds(nested)]
    a: u32,
    #[dds(topic = "Tracks")]
    b: u32,
    #[dds(data_representation(XCDR1))]
    c: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic = "Tracks", topic = "Others")]
struct Twice {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic =)]
struct NothingAfterTheSign {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", topic = Tracks)]
struct NameWithoutQuotes {
    value: u32,
}

fn main() {}
