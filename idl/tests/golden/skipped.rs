// Generated from IDL. Changes belong in the IDL file.

/// What a DDS file does not need is left out; what it may need is kept.
///
/// IDL module `Services`.
pub mod services {
    /// IDL interface `Services::Root`, its types and constants.
    pub mod root {
        /// IDL constant `Services::Root::LIMIT`: `int32`.
        pub const LIMIT: i32 = 3;
    }

    /// IDL interface `Services::Base`, its types and constants.
    pub mod base {
        /// IDL struct `Services::Base::Request`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "Services::Base::Request", crate = "idl_cdr")]
        pub struct Request {
            /// IDL member `id`: `int32`.
            pub id: i32,
            /// IDL member `texts`: `string[3]`.
            pub texts: [String; 3],
        }

        /// IDL exception `Services::Base::Refused`.
        #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
        #[dds(name = "Services::Base::Refused", crate = "idl_cdr", nested)]
        pub struct Refused {
            /// IDL member `why`: `string`.
            pub why: String,
        }

        /// IDL typedef `Services::Base::Requests`: `sequence<Services::Base::Request>`.
        pub type Requests = Vec<Request>;
    }

    /// IDL struct `Services::Used`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Services::Used", crate = "idl_cdr")]
    pub struct Used {
        /// IDL member `request`: `Services::Base::Request`.
        pub request: base::Request,
        /// IDL member `more`: `Services::Base::Requests`.
        pub more: base::Requests,
        /// IDL member `port`: `int32`.
        pub port: i32,
        /// IDL member `component`: `int32`.
        pub component: i32,
    }
}
