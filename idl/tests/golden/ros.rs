// Generated from IDL. Changes belong in the IDL file.

/// IDL module `builtin_interfaces`.
pub mod builtin_interfaces {
    /// IDL module `builtin_interfaces::msg`.
    pub mod msg {
        /// A point in time of some clock.
        ///
        /// IDL struct `builtin_interfaces::msg::Time`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "builtin_interfaces::msg::Time", crate = "idl_cdr")]
        pub struct Time {
            /// Whole seconds, which may be negative.
            ///
            /// IDL member `sec`: `int32`.
            pub sec: i32,
            /// Nanoseconds, in \[0, 10e9).
            ///
            /// IDL member `nanosec`: `uint32`.
            pub nanosec: u32,
        }
    }
}

/// IDL module `std_msgs`.
pub mod std_msgs {
    /// IDL module `std_msgs::msg`.
    pub mod msg {
        /// Metadata of data that has a time and a place.
        /// The frame is named, not numbered.
        ///
        /// IDL struct `std_msgs::msg::Header`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "std_msgs::msg::Header", crate = "idl_cdr")]
        pub struct Header {
            /// When.
            ///
            /// IDL member `stamp`: `builtin_interfaces::msg::Time`.
            pub stamp: super::super::builtin_interfaces::msg::Time,
            /// Where.
            ///
            /// IDL member `frame_id`: `string`.
            pub frame_id: String,
        }
    }
}

/// IDL module `fleet_interfaces`.
pub mod fleet_interfaces {
    /// IDL module `fleet_interfaces::msg`.
    pub mod msg {
        /// IDL typedef `fleet_interfaces::msg::double__36`: `double[36]`.
        pub type Double36 = [f64; 36];

        /// IDL typedef `fleet_interfaces::msg::std_msgs__msg__Header`: `std_msgs::msg::Header`.
        pub type StdMsgsMsgHeader = super::super::std_msgs::msg::Header;

        /// IDL typedef `fleet_interfaces::msg::std_msgs__msg__Header__2`: `fleet_interfaces::msg::std_msgs__msg__Header[2]`.
        pub type StdMsgsMsgHeader2 = [StdMsgsMsgHeader; 2];

        /// IDL module `fleet_interfaces::msg::VehicleState_Constants`.
        pub mod vehicle_state_constants {
            /// ```text
            /// Modes.
            /// - 0: parked
            ///     * with brake
            /// ```
            ///
            /// IDL constant `fleet_interfaces::msg::VehicleState_Constants::MODE_PARKED`: `uint8`.
            pub const MODE_PARKED: u8 = 0;

            /// IDL constant `fleet_interfaces::msg::VehicleState_Constants::MODE_DRIVING`: `uint8`.
            pub const MODE_DRIVING: u8 = 1;

            /// IDL constant `fleet_interfaces::msg::VehicleState_Constants::MAX_SPEED`: `float`.
            #[allow(clippy::approx_constant, reason = "the IDL has this value")]
            pub const MAX_SPEED: f32 = 13.5;

            /// IDL constant `fleet_interfaces::msg::VehicleState_Constants::VENDOR`: `string`.
            pub const VENDOR: &str = "it's \"ours\"";
        }

        /// The state of a vehicle \[m, s\].
        ///
        /// IDL struct `fleet_interfaces::msg::VehicleState`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "fleet_interfaces::msg::VehicleState", crate = "idl_cdr")]
        pub struct VehicleState {
            /// IDL member `header`: `std_msgs::msg::Header`.
            pub header: super::super::std_msgs::msg::Header,
            /// One of the modes.
            ///
            /// IDL member `mode`: `uint8`.
            #[dds(default = 1)]
            pub mode: u8,
            /// IDL member `speed`: `float`, in `m/s`.
            #[dds(unit = "m/s")]
            pub speed: f32,
            /// IDL member `covariance`: `fleet_interfaces::msg::double__36`.
            pub covariance: Double36,
            /// IDL member `stops`: `sequence<builtin_interfaces::msg::Time>`.
            pub stops: Vec<super::super::builtin_interfaces::msg::Time>,
            /// IDL member `payload`: `sequence<uint8, 16>`.
            #[dds(bound = 16)]
            pub payload: Vec<u8>,
            /// IDL member `name`: `string<32>`.
            #[dds(bound = 32, default = String::from("vehicle"))]
            pub name: String,
            /// IDL member `remark`: `wstring`.
            pub remark: ::idl_cdr::WString,
            /// IDL member `active`: `boolean`.
            #[dds(default = true)]
            pub active: bool,
            /// IDL member `counts`: `sequence<int64, 4>`.
            #[dds(bound = 4, default = vec![1, -2, 3])]
            pub counts: Vec<i64>,
            /// IDL member `history`: `fleet_interfaces::msg::std_msgs__msg__Header__2`.
            pub history: StdMsgsMsgHeader2,
            /// IDL member `raw`: `octet`.
            pub raw: u8,
            /// IDL member `letter`: `char`.
            pub letter: char,
        }
    }

    /// IDL module `fleet_interfaces::srv`.
    pub mod srv {
        /// IDL module `fleet_interfaces::srv::Park_Request_Constants`.
        pub mod park_request_constants {
            /// IDL constant `fleet_interfaces::srv::Park_Request_Constants::ANYWHERE`: `int8`.
            pub const ANYWHERE: i8 = -1;
        }

        /// IDL struct `fleet_interfaces::srv::Park_Request`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "fleet_interfaces::srv::Park_Request", crate = "idl_cdr")]
        pub struct ParkRequest {
            /// IDL member `where`: `int8`.
            #[dds(default = -1)]
            pub r#where: i8,
        }

        /// IDL struct `fleet_interfaces::srv::Park_Response`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "fleet_interfaces::srv::Park_Response", crate = "idl_cdr")]
        pub struct ParkResponse {
            /// IDL member `done`: `boolean`.
            pub done: bool,
            /// IDL member `state`: `fleet_interfaces::msg::VehicleState`.
            pub state: super::msg::VehicleState,
        }

        /// IDL struct `fleet_interfaces::srv::Park_Nothing`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "fleet_interfaces::srv::Park_Nothing", crate = "idl_cdr")]
        pub struct ParkNothing {
            /// IDL member `structure_needs_at_least_one_member`: `uint8`.
            pub structure_needs_at_least_one_member: u8,
        }
    }
}
