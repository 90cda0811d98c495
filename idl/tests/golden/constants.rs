// Generated from IDL. Changes belong in the IDL file.

/// IDL module `Limits`.
pub mod limits {
    /// IDL constant `Limits::CREW`: `uint16`.
    pub const CREW: u16 = 6;

    /// IDL constant `Limits::DAY`: `int64`.
    pub const DAY: i64 = 86400;

    /// IDL constant `Limits::MASK`: `octet`.
    pub const MASK: u8 = 240;

    /// IDL constant `Limits::ALL`: `uint32`.
    pub const ALL: u32 = 4294967295;

    /// IDL constant `Limits::NEGATIVE`: `int32`.
    pub const NEGATIVE: i32 = -15;

    /// IDL constant `Limits::armed`: `boolean`.
    pub const ARMED: bool = true;

    /// IDL constant `Limits::SEPARATOR`: `char`.
    pub const SEPARATOR: char = '\t';

    /// IDL constant `Limits::UMLAUT`: `wchar`.
    pub const UMLAUT: ::idl_cdr::WChar = ::idl_cdr::WChar(0x00e4);

    /// IDL constant `Limits::NAME`: `string`.
    pub const NAME: &str = "Flight \"control\" unit";

    /// IDL constant `Limits::WIDE_NAME`: `wstring`.
    pub const WIDE_NAME: &str = "Größe";

    /// IDL constant `Limits::THIRD`: `float`.
    #[allow(clippy::approx_constant, reason = "the IDL has this value")]
    pub const THIRD: f32 = 0.33333334;

    /// The ratio of a circle's circumference to its diameter.
    ///
    /// IDL constant `Limits::PI`: `double`.
    #[allow(clippy::approx_constant, reason = "the IDL has this value")]
    pub const PI: f64 = 3.14159265358979;

    /// IDL constant `Limits::E`: `long double`, 2.71828182845904523536.
    pub const E: ::idl_cdr::LongDouble =
        ::idl_cdr::LongDouble(0x40005bf0a8b1457695355f0ae836c878_u128.to_le_bytes());

    /// Beyond any double, and not the third that a double has.
    ///
    /// IDL constant `Limits::HUGE`: `long double`, 1.5E+4000.
    pub const HUGE: ::idl_cdr::LongDouble =
        ::idl_cdr::LongDouble(0x73e73a97c4b5fd805291940ac3f3c992_u128.to_le_bytes());

    /// IDL constant `Limits::EXACT_THIRD`: `long double`, 0.33333333333333333333333333333333337.
    pub const EXACT_THIRD: ::idl_cdr::LongDouble =
        ::idl_cdr::LongDouble(0x3ffd5555555555555555555555555556_u128.to_le_bytes());

    /// IDL constant `Limits::SHORT_E`: `double`.
    #[allow(clippy::approx_constant, reason = "the IDL has this value")]
    pub const SHORT_E: f64 = 2.718281828459045;

    /// IDL constant `Limits::PRICE`: `fixed<3, 1>`.
    pub const PRICE: ::idl_cdr::Fixed<3, 1> =
        ::idl_cdr::Fixed::from_units(125).expect("the digits were counted");

    /// IDL constant `Limits::TAX`: `fixed<4, 3>`.
    pub const TAX: ::idl_cdr::Fixed<4, 3> =
        ::idl_cdr::Fixed::from_units(2375).expect("the digits were counted");

    /// IDL enum `Limits::Level`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[dds(name = "Limits::Level", crate = "idl_cdr")]
    pub enum Level {
        /// IDL enumerator `LOW`.
        #[dds(name = "LOW")]
        Low,
        /// IDL enumerator `HIGH`.
        #[dds(name = "HIGH")]
        High,
    }

    /// IDL constant `Limits::DEFAULT_LEVEL`: `Limits::Level`.
    pub const DEFAULT_LEVEL: Level = Level::High;

    /// IDL module `Limits::Deep`.
    pub mod deep {
        /// IDL constant `Limits::Deep::CREW`: `uint16`.
        pub const CREW: u16 = 7;

        /// IDL constant `Limits::Deep::ROWS`: `uint16`.
        pub const ROWS: u16 = 14;

        /// IDL constant `Limits::Deep::LONG_TEXT`: `string`.
        pub const LONG_TEXT: &str =
            "a text that is so long that it has to stand on a line of its own behind the name";
    }

    /// IDL struct `Limits::Exact`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Limits::Exact", crate = "idl_cdr")]
    pub struct Exact {
        /// IDL member `tenth`: `long double`.
        #[dds(default = ::idl_cdr::LongDouble(0x3ffb999999999999999999999999999a_u128.to_le_bytes()))]
        #[dds(range(min = -1.5, max = "0x73e6a3750647fcab18c21ab905450cc3"))]
        pub tenth: ::idl_cdr::LongDouble,
        /// IDL member `plain`: `long double`.
        #[dds(default = ::idl_cdr::LongDouble::from(2.5))]
        pub plain: ::idl_cdr::LongDouble,
        /// IDL member `both`: `long double[2]`.
        #[dds(default = vec![::idl_cdr::LongDouble(0x3ffb999999999999999999999999999a_u128.to_le_bytes()), ::idl_cdr::LongDouble(0x73e6a3750647fcab18c21ab905450cc3_u128.to_le_bytes())].try_into().expect("the elements were counted"))]
        pub both: [::idl_cdr::LongDouble; 2],
    }

    /// IDL struct `Limits::Cabin`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Limits::Cabin", crate = "idl_cdr")]
    pub struct Cabin {
        /// IDL member `names`: `string<48>[14][3]`.
        #[dds(bound = 48)]
        pub names: [[String; 3]; 14],
        /// IDL member `remarks`: `sequence<string<12>, 60>`.
        #[dds(bound = [60, 12])]
        pub remarks: Vec<String>,
    }
}
