use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct SameId {
    #[dds(id = 1)]
    a: u32,
    #[dds(id = 1)]
    b: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct TwoIds {
    #[dds(id = 1, hashid)]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct LargeId {
    #[dds(id = 0x1000_0000)]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct OptionalKey {
    #[dds(key)]
    a: Option<u32>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct ExternalNumber {
    #[dds(external)]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct KeyThatIsNotThere {
    #[dds(key, non_serialized)]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct TrimWithoutBound {
    #[dds(try_construct = "trim")]
    a: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct UnknownTry {
    #[dds(try_construct = "keep")]
    a: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct DefaultWithoutValue {
    #[dds(default)]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct WrongDefault {
    #[dds(default = "text")]
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct LateBase {
    a: u32,
    #[dds(base)]
    base: LargeId2,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct LargeId2 {
    a: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct OtherExtensibility {
    #[dds(base)]
    base: LargeId2,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct IdOfTheBase {
    #[dds(base)]
    base: LargeId2,
    #[dds(id = 0)]
    b: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct BaseThatIsNone {
    #[dds(base)]
    base: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Twice {
    #[dds(key, key)]
    a: u32,
}

fn main() {}
