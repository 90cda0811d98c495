use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 8)]
struct WideMask(u32);

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitmask)]
struct NamedMask {
    bits: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 8, flags(HIGH = 8))]
struct FlagBeyond(u8);

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitset)]
struct WithoutBits {
    a: u8,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitset)]
struct TooManyBits {
    #[dds(bits = 60)]
    a: u64,
    #[dds(bits = 5)]
    b: u8,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitset)]
struct NarrowField {
    #[dds(bits = 9)]
    a: u8,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitset)]
struct FloatField {
    #[dds(bits = 9)]
    a: f32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bit_bound = 8)]
enum LargeEnumerator {
    A = 256,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bit_bound = 8)]
#[repr(i16)]
enum SameBits {
    A = -1,
    B = 255,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bit_bound = 33)]
enum WideEnum {
    A,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
enum TwoDefaults {
    #[dds(default_literal)]
    A,
    #[dds(default_literal)]
    B,
}

fn main() {}
