use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility = "open")]
struct UnknownExtensibility {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct UnknownOnField {
    #[dds(idd = 3)]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", key)]
struct KeyOnStruct {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
enum KeyOnEnumerator {
    #[dds(key)]
    A,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "No spaces")]
struct BadName {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "not a path")]
struct BadPath {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct ZeroBound {
    #[dds(bound = 0)]
    value: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct SameName {
    value: u32,
    #[dds(name = "Value")]
    other: u32,
}

fn main() {}
