// Generated from IDL. Changes belong in the IDL file.

/// Every construct that the compiler takes.
///
/// IDL module `Nav`.
pub mod nav {
    /// IDL enum `Nav::FlightPhase`.
    #[derive(
        ::dds_api::types::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
    )]
    #[dds(name = "Nav::FlightPhase")]
    pub enum FlightPhase {
        /// IDL enumerator `TAXI`.
        #[dds(name = "TAXI")]
        Taxi,
        /// IDL enumerator `TAKE_OFF`.
        #[dds(name = "TAKE_OFF")]
        TakeOff,
        /// IDL enumerator `Cruise`.
        Cruise,
    }

    /// IDL typedef `Nav::Vector3`: `double[3]`.
    pub type Vector3 = [f64; 3];

    /// IDL typedef `Nav::CallSign`: `string<8>`.
    pub type CallSign = String;

    /// IDL typedef `Nav::Formation`: `sequence<Nav::CallSign, 4>`.
    pub type Formation = Vec<CallSign>;

    /// A module inside.
    ///
    /// IDL module `Nav::Detail`.
    pub mod detail {
        /// IDL struct `Nav::Detail::Position`.
        #[derive(::dds_api::types::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "Nav::Detail::Position", extensibility = "final")]
        pub struct Position {
            /// IDL member `latitude`: `double`.
            pub latitude: f64,
            /// IDL member `longitude`: `double`.
            pub longitude: f64,
            /// IDL member `altitude`: `float`.
            pub altitude: f32,
        }

        /// IDL struct `Nav::Detail::Track`.
        #[derive(::dds_api::types::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "Nav::Detail::Track")]
        pub struct Track {
            /// IDL member `phase`: `Nav::FlightPhase`.
            #[dds(key)]
            pub phase: super::FlightPhase,
            /// IDL member `velocity`: `Nav::Vector3`.
            pub velocity: super::Vector3,
            /// IDL member `call_sign`: `Nav::CallSign`.
            #[dds(bound = 8)]
            pub call_sign: super::CallSign,
        }
    }

    /// IDL struct `Nav::Basics`.
    #[derive(::dds_api::types::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Nav::Basics")]
    pub struct Basics {
        /// IDL member `a_boolean`: `boolean`.
        pub a_boolean: bool,
        /// IDL member `an_octet`: `octet`.
        pub an_octet: u8,
        /// IDL member `i8_value`: `int8`.
        pub i8_value: i8,
        /// IDL member `u8_value`: `uint8`.
        pub u8_value: u8,
        /// IDL member `s`: `int16`.
        pub s: i16,
        /// IDL member `us`: `uint16`.
        pub us: u16,
        /// IDL member `i16_value`: `int16`.
        pub i16_value: i16,
        /// IDL member `u16_value`: `uint16`.
        pub u16_value: u16,
        /// IDL member `l`: `int32`.
        pub l: i32,
        /// IDL member `ul`: `uint32`.
        pub ul: u32,
        /// IDL member `i32_value`: `int32`.
        pub i32_value: i32,
        /// IDL member `u32_value`: `uint32`.
        pub u32_value: u32,
        /// IDL member `ll`: `int64`.
        pub ll: i64,
        /// IDL member `ull`: `uint64`.
        pub ull: u64,
        /// IDL member `i64_value`: `int64`.
        pub i64_value: i64,
        /// IDL member `u64_value`: `uint64`.
        pub u64_value: u64,
        /// IDL member `f`: `float`.
        pub f: f32,
        /// IDL member `d`: `double`.
        pub d: f64,
    }

    /// IDL struct `Nav::Aircraft`.
    #[derive(::dds_api::types::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Nav::Aircraft")]
    pub struct Aircraft {
        /// IDL member `aircraftId`: `uint32`.
        #[dds(key, name = "aircraftId")]
        pub aircraft_id: u32,
        /// IDL member `type`: `string<8>`.
        #[dds(key, bound = 8)]
        pub r#type: String,
        /// IDL member `remark`: `string`.
        pub remark: String,
        /// IDL member `string`: `string`.
        pub string: String,
        /// IDL member `position`: `Nav::Detail::Position`.
        pub position: detail::Position,
        /// IDL member `tracks`: `sequence<Nav::Detail::Track>`.
        pub tracks: Vec<detail::Track>,
        /// IDL member `payload`: `sequence<octet, 16>`.
        #[dds(bound = 16)]
        pub payload: Vec<u8>,
        /// IDL member `words`: `sequence<sequence<string<3>>, 2>`.
        #[dds(bound = [2, _, 3])]
        pub words: Vec<Vec<String>>,
        /// IDL member `grid`: `int32[2][3]`.
        pub grid: [[i32; 3]; 2],
        /// IDL member `self`: `int32`.
        #[dds(name = "self")]
        pub self_: i32,
        /// IDL member `single`: `int32`.
        pub single: i32,
        /// IDL member `names`: `Nav::CallSign[2]`.
        #[dds(bound = 8)]
        pub names: [CallSign; 2],
        /// IDL member `formation`: `Nav::Formation`.
        #[dds(bound = [4, 8])]
        pub formation: Formation,
        /// IDL member `phases`: `Nav::FlightPhase[2]`.
        pub phases: [FlightPhase; 2],
        /// IDL member `places`: `Other::Places`.
        pub places: super::other::Places,
    }
}

/// IDL module `Other`.
pub mod other {
    /// IDL typedef `Other::Place`: `Nav::Detail::Position`.
    pub type Place = super::nav::detail::Position;

    /// IDL typedef `Other::Places`: `Nav::Detail::Position[2]`.
    pub type Places = [super::nav::detail::Position; 2];
}
