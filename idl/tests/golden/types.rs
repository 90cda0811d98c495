// Generated from IDL. Changes belong in the IDL file.

/// IDL module `Kinds`.
pub mod kinds {
    /// IDL enum `Kinds::Priority`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[dds(name = "Kinds::Priority", crate = "idl_cdr", bit_bound = 8)]
    pub enum Priority {
        /// IDL enumerator `NONE`.
        #[dds(name = "NONE")]
        None = -1,
        /// 0, as it counts on
        ///
        /// IDL enumerator `LOW`.
        #[dds(name = "LOW", default_literal)]
        Low,
        /// IDL enumerator `HIGH`.
        #[dds(name = "HIGH")]
        High = 5,
        /// IDL enumerator `HIGHEST`.
        #[dds(name = "HIGHEST")]
        Highest,
    }

    /// IDL bitmask `Kinds::Access`.
    #[derive(
        ::idl_cdr::DdsType, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
    )]
    #[dds(name = "Kinds::Access", crate = "idl_cdr", bitmask, bit_bound = 12)]
    #[dds(flags(READ = 0, WRITE = 3, type = 4))]
    pub struct Access(pub u16);

    impl Access {
        /// IDL bit `READ`, number 0.
        pub const READ: Self = Self(1);

        /// behind a gap
        ///
        /// IDL bit `WRITE`, number 3.
        pub const WRITE: Self = Self(1 << 3);

        /// IDL bit `type`, number 4.
        pub const TYPE: Self = Self(1 << 4);

        /// Whether all bits of the other one are set.
        pub const fn contains(self, other: Self) -> bool {
            self.0 & other.0 == other.0
        }
    }

    impl ::core::ops::BitOr for Access {
        type Output = Self;

        fn bitor(self, other: Self) -> Self {
            Self(self.0 | other.0)
        }
    }

    /// IDL bitset `Kinds::Header`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[dds(name = "Kinds::Header", crate = "idl_cdr", bitset)]
    pub struct Header {
        /// IDL bit field `version`: `uint8`.
        #[dds(bits = 3)]
        pub version: u8,
        /// IDL bit field `urgent`: `boolean`.
        #[dds(bits = 1)]
        pub urgent: bool,
        /// Bits that only fill.
        #[dds(bits = 4)]
        pub filler: u8,
        /// IDL bit field `hop_count`: `uint32`.
        #[dds(bits = 10)]
        pub hop_count: u32,
        /// IDL bit field `hopLimit`: `uint32`.
        #[dds(name = "hopLimit", bits = 10)]
        pub hop_limit: u32,
    }

    /// IDL bitset `Kinds::LongHeader`, with the fields of its base `Kinds::Header`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[dds(name = "Kinds::LongHeader", crate = "idl_cdr", bitset)]
    pub struct LongHeader {
        /// IDL bit field `version`: `uint8`.
        #[dds(bits = 3)]
        pub version: u8,
        /// IDL bit field `urgent`: `boolean`.
        #[dds(bits = 1)]
        pub urgent: bool,
        /// Bits that only fill.
        #[dds(bits = 4)]
        pub filler: u8,
        /// IDL bit field `hop_count`: `uint32`.
        #[dds(bits = 10)]
        pub hop_count: u32,
        /// IDL bit field `hopLimit`: `uint32`.
        #[dds(name = "hopLimit", bits = 10)]
        pub hop_limit: u32,
        /// IDL bit field `offset`: `int8`.
        #[dds(bits = 5)]
        pub offset: i8,
    }

    /// IDL typedef `Kinds::Table`: `map<string<16>, sequence<double, 4>, 32>`.
    pub type Table = ::std::collections::BTreeMap<String, Vec<f64>>;

    /// IDL typedef `Kinds::Amount`: `fixed<9, 2>`.
    pub type Amount = ::idl_cdr::Fixed<9, 2>;

    /// IDL typedef `Kinds::Blob`: `sequence<octet>`.
    pub type Blob = Vec<u8>;

    /// IDL typedef `Kinds::Blobs`: `sequence<octet>[2]`.
    pub type Blobs = [Vec<u8>; 2];

    /// IDL struct `Kinds::Everything`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Everything", crate = "idl_cdr")]
    pub struct Everything {
        /// IDL member `flag`: `boolean`.
        pub flag: bool,
        /// IDL member `raw`: `octet`.
        pub raw: u8,
        /// IDL member `letter`: `char`.
        pub letter: char,
        /// IDL member `wide_letter`: `wchar`.
        pub wide_letter: ::idl_cdr::WChar,
        /// IDL member `i8`: `int8`.
        pub i8: i8,
        /// IDL member `u8`: `uint8`.
        pub u8: u8,
        /// IDL member `i16`: `int16`.
        pub i16: i16,
        /// IDL member `u16`: `uint16`.
        pub u16: u16,
        /// IDL member `i32`: `int32`.
        pub i32: i32,
        /// IDL member `u32`: `uint32`.
        pub u32: u32,
        /// IDL member `i64`: `int64`.
        pub i64: i64,
        /// IDL member `u64`: `uint64`.
        pub u64: u64,
        /// IDL member `f32`: `float`.
        pub f32: f32,
        /// IDL member `f64`: `double`.
        pub f64: f64,
        /// IDL member `f128`: `long double`.
        pub f128: ::idl_cdr::LongDouble,
        /// IDL member `amount`: `Kinds::Amount`.
        pub amount: Amount,
        /// IDL member `digits`: `fixed<31, 0>`.
        pub digits: ::idl_cdr::Fixed<31, 0>,
        /// IDL member `text`: `string`.
        pub text: String,
        /// IDL member `short_text`: `string<20>`.
        #[dds(bound = 20)]
        pub short_text: String,
        /// IDL member `wide_text`: `wstring`.
        pub wide_text: ::idl_cdr::WString,
        /// IDL member `short_wide_text`: `wstring<7>`.
        #[dds(bound = 7)]
        pub short_wide_text: ::idl_cdr::WString,
        /// IDL member `wide_texts`: `sequence<wstring<3>, 2>`.
        #[dds(bound = [2, 3])]
        pub wide_texts: Vec<::idl_cdr::WString>,
        /// IDL member `table`: `Kinds::Table`.
        #[dds(bound = [32, 16, 4])]
        pub table: Table,
        /// IDL member `priorities`: `map<int32, Kinds::Priority>`.
        pub priorities: ::std::collections::BTreeMap<i32, Priority>,
        /// IDL member `nested`: `map<Kinds::Priority, map<char, string<2>>, 3>`.
        #[dds(bound = [3, _, 2])]
        pub nested:
            ::std::collections::BTreeMap<Priority, ::std::collections::BTreeMap<char, String>>,
        /// IDL member `cube`: `int32[2][3][4]`.
        pub cube: [[[i32; 4]; 3]; 2],
        /// IDL member `blobs`: `Kinds::Blobs`.
        pub blobs: Blobs,
        /// IDL member `priority`: `Kinds::Priority`.
        pub priority: Priority,
        /// IDL member `access`: `Kinds::Access`.
        pub access: Access,
        /// IDL member `header`: `Kinds::Header`.
        pub header: Header,
        /// IDL member `long_header`: `Kinds::LongHeader`.
        pub long_header: LongHeader,
    }

    /// IDL typedef `Kinds::Nodes`: `sequence<Kinds::Node>`.
    pub type Nodes = Vec<Node>;

    /// IDL struct `Kinds::Node`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Node", crate = "idl_cdr")]
    pub struct Node {
        /// IDL member `name`: `string`.
        pub name: String,
        /// IDL member `children`: `Kinds::Nodes`.
        pub children: Nodes,
        /// IDL member `left`: `Kinds::Node`.
        #[dds(external)]
        pub left: Option<Box<Node>>,
    }

    /// IDL union `Kinds::Shape` over `Kinds::Priority`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Shape", crate = "idl_cdr", union)]
    #[dds(discriminator = "Priority")]
    #[allow(clippy::large_enum_variant, reason = "the IDL has it so")]
    pub enum Shape {
        /// of a circle
        ///
        /// IDL member `radius`: `double`.
        #[dds(name = "radius", case = Priority::None, Priority::Low)]
        Radius {
            /// What selected it.
            discriminator: Priority,
            /// The member.
            value: f64,
        },
        /// IDL member `sides`: `Kinds::Amount[3]`.
        #[dds(name = "sides", case = Priority::High)]
        Sides([Amount; 3]),
        /// IDL member `nodes`: `sequence<Kinds::Node, 4>`.
        #[dds(name = "nodes", bound = 4, default)]
        Nodes {
            /// What selected it.
            discriminator: Priority,
            /// The member.
            value: Vec<Node>,
        },
    }

    /// IDL union `Kinds::Open` over `int32`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Open", crate = "idl_cdr", union, discriminator = "i32")]
    pub enum Open {
        /// IDL member `small`: `octet`.
        #[dds(name = "small", case = -1)]
        Small(u8),
        /// IDL member `text`: `string<9>`.
        #[dds(name = "text", bound = 9, external, case = 1, 2)]
        Text {
            /// What selected it.
            discriminator: i32,
            /// The member.
            #[allow(clippy::box_collection, reason = "the IDL has it so")]
            value: Box<String>,
        },
        /// There is no member: the discriminator has a value without a case.
        #[dds(default)]
        NoCase {
            /// What selected it.
            discriminator: i32,
        },
    }

    /// IDL union `Kinds::Letter` over `char`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Letter", crate = "idl_cdr", union)]
    #[dds(discriminator = "char")]
    pub enum Letter {
        /// IDL member `first`: `int32`.
        #[dds(name = "first", case = 'a', '\'')]
        First {
            /// What selected it.
            discriminator: char,
            /// The member.
            value: i32,
        },
        /// IDL member `other`: `int16`.
        #[dds(name = "other", default)]
        Other {
            /// What selected it.
            discriminator: char,
            /// The member.
            value: i16,
        },
    }

    /// IDL union `Kinds::Yes` over `boolean`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Yes", crate = "idl_cdr", union, discriminator = "bool")]
    pub enum Yes {
        /// IDL member `why`: `string`.
        #[dds(name = "why", case = true)]
        Why(String),
        /// IDL member `code`: `octet`.
        #[dds(name = "code", case = false)]
        Code(u8),
    }

    /// IDL union `Kinds::WideLetter` over `wchar`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::WideLetter", crate = "idl_cdr", union)]
    #[dds(discriminator = "::idl_cdr::WChar")]
    pub enum WideLetter {
        /// IDL member `x`: `int32`.
        #[dds(name = "x", case = 'x')]
        X(i32),
        /// There is no member: the discriminator has a value without a case.
        #[dds(default)]
        NoCase {
            /// What selected it.
            discriminator: ::idl_cdr::WChar,
        },
    }

    /// IDL union `Kinds::Byte` over `octet`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Byte", crate = "idl_cdr", union, discriminator = "u8")]
    #[dds(discriminator_key)]
    pub enum Byte {
        /// IDL member `seven`: `int32`.
        #[dds(name = "seven", id = 40, case = 7)]
        Seven(i32),
        /// IDL member `other`: `int32`.
        #[dds(name = "other", default)]
        Other {
            /// What selected it.
            discriminator: u8,
            /// The member.
            value: i32,
        },
    }

    /// IDL struct `Kinds::Base`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Base", crate = "idl_cdr")]
    pub struct Base {
        /// IDL member `id`: `int32`.
        #[dds(key)]
        pub id: i32,
        /// IDL member `base`: `string`.
        pub base: String,
    }

    /// IDL struct `Kinds::Middle`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Middle", crate = "idl_cdr")]
    pub struct Middle {
        /// The members of its base `Kinds::Base`.
        #[dds(base)]
        pub base: Base,
        /// IDL member `width`: `int32`.
        pub width: i32,
    }

    /// IDL struct `Kinds::Derived`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::Derived", crate = "idl_cdr")]
    pub struct Derived {
        /// The members of its base `Kinds::Middle`.
        #[dds(base)]
        pub base: Middle,
        /// IDL member `height`: `int32`.
        pub height: i32,
        /// IDL member `type`: `int32`.
        pub r#type: i32,
    }

    /// IDL exception `Kinds::OutOfReach`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Kinds::OutOfReach", crate = "idl_cdr", nested)]
    pub struct OutOfReach {
        /// IDL member `distance`: `double`.
        pub distance: f64,
    }
}

/// IDL bitmask `a_bitmask_of_many_bits`.
#[derive(::idl_cdr::DdsType, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[dds(name = "a_bitmask_of_many_bits", crate = "idl_cdr", bitmask)]
#[dds(flags(
    the_first_of_the_bits = 0,
    the_second_of_the_bits = 1,
    the_third_of_the_bits = 2,
    the_fourth_of_the_bits = 3,
))]
pub struct ABitmaskOfManyBits(pub u32);

impl ABitmaskOfManyBits {
    /// IDL bit `the_first_of_the_bits`, number 0.
    pub const THE_FIRST_OF_THE_BITS: Self = Self(1);

    /// IDL bit `the_second_of_the_bits`, number 1.
    pub const THE_SECOND_OF_THE_BITS: Self = Self(1 << 1);

    /// IDL bit `the_third_of_the_bits`, number 2.
    pub const THE_THIRD_OF_THE_BITS: Self = Self(1 << 2);

    /// IDL bit `the_fourth_of_the_bits`, number 3.
    pub const THE_FOURTH_OF_THE_BITS: Self = Self(1 << 3);

    /// Whether all bits of the other one are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl ::core::ops::BitOr for ABitmaskOfManyBits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// IDL module `a_module_with_a_name_that_is_rather_long`.
pub mod a_module_with_a_name_that_is_rather_long {
    /// IDL module `a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long`.
    pub mod another_module_with_a_name_that_is_rather_long {
        /// IDL struct `a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long::a_struct_with_a_name_that_is_rather_long`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(
            name = "a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long::a_struct_with_a_name_that_is_rather_long"
        )]
        #[dds(crate = "idl_cdr")]
        pub struct AStructWithANameThatIsRatherLong {
            /// IDL member `a`: `int32`.
            pub a: i32,
        }

        /// IDL union `a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long::Pair` over `int32`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(
            name = "a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long::Pair"
        )]
        #[dds(crate = "idl_cdr", union, discriminator = "i32")]
        #[allow(
            clippy::large_enum_variant,
            clippy::enum_variant_names,
            reason = "the IDL has it so"
        )]
        pub enum Pair {
            /// IDL member `PairA`: `a_module_with_a_name_that_is_rather_long::another_module_with_a_name_that_is_rather_long::a_struct_with_a_name_that_is_rather_long`.
            #[dds(case = 0)]
            PairA(AStructWithANameThatIsRatherLong),
            /// IDL member `PairB`: `int32[100]`.
            #[dds(default)]
            PairB {
                /// What selected it.
                discriminator: i32,
                /// The member.
                value: [i32; 100],
            },
        }
    }
}

/// IDL struct `Empty`.
#[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
#[dds(name = "Empty", crate = "idl_cdr", extensibility = "appendable")]
pub struct Empty {}

/// IDL exception `Nothing`.
#[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
#[dds(name = "Nothing", crate = "idl_cdr", nested)]
pub struct Nothing {}

/// IDL union `Pick` over `Kinds::Priority`.
#[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
#[dds(name = "Pick", crate = "idl_cdr", union)]
#[dds(discriminator = "kinds::Priority")]
#[allow(clippy::large_enum_variant, reason = "the IDL has it so")]
pub enum Pick {
    /// IDL member `none`: `Empty`.
    #[dds(name = "none", case = kinds::Priority::High)]
    None(Empty),
    /// IDL member `some`: `Kinds::Base`.
    #[dds(name = "some", case = kinds::Priority::Low)]
    Some(kinds::Base),
    /// There is no member: the discriminator has a value without a case.
    #[dds(default)]
    NoCase {
        /// What selected it.
        discriminator: kinds::Priority,
    },
}
