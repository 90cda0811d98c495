// Generated from IDL. Changes belong in the IDL file.

/// Values that bring their types along, wherever one can be.
///
/// IDL module `Boxed`.
pub mod boxed {
    /// IDL typedef `Boxed::Anything`: `any`.
    pub type Anything = ::idl_xtypes::types::Any;

    /// IDL typedef `Boxed::Few`: `sequence<any, 2>`.
    pub type Few = Vec<::idl_xtypes::types::Any>;

    /// IDL struct `Boxed::Report`.
    #[derive(::idl_xtypes::types::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Boxed::Report", crate = "idl_xtypes::types")]
    pub struct Report {
        /// IDL member `id`: `int32`.
        #[dds(key)]
        pub id: i32,
        /// IDL member `what`: `any`.
        pub what: ::idl_xtypes::types::Any,
        /// IDL member `more`: `any`.
        pub more: Option<::idl_xtypes::types::Any>,
        /// IDL member `far`: `Boxed::Anything`.
        #[dds(external)]
        pub far: Box<Anything>,
        /// IDL member `few`: `Boxed::Few`.
        #[dds(bound = 2)]
        pub few: Few,
        /// IDL member `pair`: `any[2]`.
        pub pair: [::idl_xtypes::types::Any; 2],
        /// IDL member `named`: `map<string<8>, any, 2>`.
        #[dds(bound = [2, 8])]
        pub named: ::std::collections::BTreeMap<String, ::idl_xtypes::types::Any>,
    }

    /// IDL union `Boxed::Either` over `int32`.
    #[derive(::idl_xtypes::types::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Boxed::Either", crate = "idl_xtypes::types", union)]
    #[dds(discriminator = "i32", extensibility = "appendable")]
    pub enum Either {
        /// IDL member `held`: `Boxed::Anything`.
        #[dds(name = "held", case = 1)]
        Held(Anything),
        /// IDL member `text`: `string`.
        #[dds(name = "text", default)]
        Text {
            /// What selected it.
            discriminator: i32,
            /// The member.
            value: String,
        },
    }

    /// IDL struct `Boxed::Late`.
    #[derive(::idl_xtypes::types::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Boxed::Late", crate = "idl_xtypes::types")]
    #[dds(extensibility = "mutable")]
    pub struct Late {
        /// IDL member `either`: `Boxed::Either`.
        #[dds(id = 7)]
        pub either: Either,
        /// IDL member `rest`: `sequence<Boxed::Anything>`.
        #[dds(id = 9)]
        pub rest: Vec<Anything>,
    }
}
