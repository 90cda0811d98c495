// Generated from IDL. Changes belong in the IDL file.

/// Names that Rust has other ideas about.
///
/// IDL module `type`.
pub mod r#type {
    /// IDL struct `type::Vec`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "type::Vec", crate = "idl_cdr")]
    pub struct Vec_ {
        /// IDL member `fooBar`: `int32`.
        #[dds(name = "fooBar")]
        pub foo_bar: i32,
        /// IDL member `foo_bar`: `int32`.
        #[dds(name = "foo_bar")]
        pub foo_bar_: i32,
        /// IDL member `FooBAR2`: `int32`.
        #[dds(name = "FooBAR2")]
        pub foo_bar2: i32,
        /// IDL member `self`: `int32`.
        #[dds(name = "self")]
        pub self_: i32,
        /// IDL member `base`: `int32`.
        pub base: i32,
    }

    /// IDL struct `type::Option`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "type::Option", crate = "idl_cdr")]
    pub struct Option_ {
        /// The members of its base `type::Vec`.
        #[dds(base)]
        pub base: Vec_,
        /// IDL member `base2`: `int32`.
        pub base2: i32,
    }

    /// IDL struct `type::string_list`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "type::string_list", crate = "idl_cdr")]
    pub struct StringList {
        /// IDL member `values`: `sequence<type::Vec>`.
        pub values: Vec<Vec_>,
    }

    /// IDL struct `type::StringList`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "type::StringList", crate = "idl_cdr")]
    pub struct StringList_ {
        /// IDL member `inner`: `type::string_list`.
        pub inner: StringList,
    }

    /// IDL enum `type::color`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[dds(name = "type::color", crate = "idl_cdr")]
    #[allow(clippy::enum_variant_names, reason = "the IDL has it so")]
    pub enum Color {
        /// IDL enumerator `COLOR_RED`.
        #[dds(name = "COLOR_RED")]
        ColorRed,
        /// IDL enumerator `COLOR_GREEN`.
        #[dds(name = "COLOR_GREEN")]
        ColorGreen,
        /// IDL enumerator `COLOR_BLUE`.
        #[dds(name = "COLOR_BLUE")]
        ColorBlue,
        /// IDL enumerator `ColorBlue_`.
        ColorBlue_,
    }

    /// IDL constant `type::blue`: `type::color`.
    pub const BLUE: Color = Color::ColorBlue_;

    /// IDL constant `type::maxSize`: `int32`.
    pub const MAX_SIZE: i32 = 1;

    /// IDL constant `type::MAX_SIZE`: `int32`.
    pub const MAX_SIZE_: i32 = 2;

    /// IDL module `type::type`.
    #[allow(clippy::module_inception, reason = "the IDL has it so")]
    pub mod r#type {
        /// IDL constant `type::type::CONST_`: `int32`.
        pub const CONST: i32 = 3;
    }

    /// IDL struct `type::Holder`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "type::Holder", crate = "idl_cdr")]
    pub struct Holder {
        /// IDL member `vec`: `type::Vec`.
        pub vec: Vec_,
        /// IDL member `option`: `type::Option`.
        pub option: Option_,
        /// IDL member `c`: `type::color`.
        #[dds(default = Color::ColorRed)]
        pub c: Color,
    }
}

/// IDL struct `a_struct_without_a_module`.
#[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
#[dds(name = "a_struct_without_a_module", crate = "idl_cdr")]
pub struct AStructWithoutAModule {
    /// IDL member `holder`: `type::Holder`.
    pub holder: r#type::Holder,
}
