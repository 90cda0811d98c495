// Generated from IDL. Changes belong in the IDL file.

/// IDL module `Marked`.
pub mod marked {
    /// ```text
    /// The state of a pump.
    ///
    ///  - off
    ///  - on
    /// ```
    ///
    /// IDL enum `Marked::State`.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[dds(name = "Marked::State", crate = "idl_cdr")]
    pub enum State {
        /// IDL enumerator `OFF`.
        #[dds(name = "OFF")]
        Off,
        /// IDL enumerator `ON`.
        #[dds(name = "ON", default_literal)]
        On,
    }

    /// IDL typedef `Marked::Brief`: `string<2>`.
    pub type Brief = String;

    /// IDL typedef `Marked::Three`: `string<3>[3]`.
    pub type Three = [String; 3];

    /// IDL typedef `Marked::Shorts`: `sequence<Marked::Brief>`.
    #[allow(clippy::box_collection, clippy::vec_box, reason = "the IDL has it so")]
    pub type Shorts = Vec<Box<Brief>>;

    /// One reading; see \[the manual\] at <https://example.org/pumps_2>.
    ///
    /// IDL struct `Marked::Reading`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Reading", crate = "idl_cdr", extensibility = "mutable")]
    #[dds(topic = "pump/readings", data_representation(XCDR2, XML))]
    #[dds(autoid = "hash")]
    pub struct Reading {
        /// its number
        ///
        /// IDL member `pump`: `uint32`.
        #[dds(key, id = 7)]
        pub pump: u32,
        /// IDL member `serial`: `string<12>`.
        #[dds(key, hashid = "serial", bound = 12)]
        pub serial: String,
        /// IDL member `count`: `int32`.
        #[dds(hashid)]
        pub count: i32,
        /// Pressure in the pipe.
        ///
        /// IDL member `pressure`: `double`, in `bar`.
        #[dds(default = 1.0, range(min = 0.0, max = 12.5), unit = "bar")]
        pub pressure: f64,
        /// IDL member `temperature`: `int16`.
        #[dds(default = 20, range(min = -40, max = 120))]
        pub temperature: i16,
        /// IDL member `remark`: `string`.
        pub remark: Option<String>,
        /// IDL member `state`: `Marked::State`.
        #[dds(external, must_understand)]
        pub state: Box<State>,
        /// IDL member `wanted`: `Marked::State`.
        #[dds(default = State::On)]
        pub wanted: State,
        /// IDL member `label`: `string`.
        #[dds(default = String::from("none"))]
        pub label: String,
        /// IDL member `elsewhere`: `int32`.
        #[dds(external, default = Box::new(-3))]
        pub elsewhere: Box<i32>,
        /// IDL member `wide_label`: `wstring`.
        #[dds(default = ::idl_cdr::WString::from("keins"))]
        pub wide_label: ::idl_cdr::WString,
        /// IDL member `mark`: `char`.
        #[dds(default = 'x')]
        pub mark: char,
        /// IDL member `wide_mark`: `wchar`.
        #[dds(default = ::idl_cdr::WChar(0x0079))]
        pub wide_mark: ::idl_cdr::WChar,
        /// IDL member `valid`: `boolean`.
        #[dds(default = true)]
        pub valid: bool,
        /// IDL member `price`: `fixed<5, 2>`.
        #[dds(default = ::idl_cdr::Fixed::from_units(250).expect("the digits were counted"))]
        pub price: ::idl_cdr::Fixed<5, 2>,
        /// IDL member `three`: `int32[3]`.
        #[dds(default = vec![1, 2, 3].try_into().expect("the elements were counted"))]
        pub three: [i32; 3],
        /// IDL member `some`: `sequence<float, 4>`.
        #[dds(bound = 4, default = vec![0.5, 1.0])]
        pub some: Vec<f32>,
        /// IDL member `names`: `sequence<string>`.
        #[dds(default = vec![String::from("a"), String::from("b")])]
        pub names: Vec<String>,
        /// IDL member `trimmed`: `string<4>`.
        #[dds(bound = 4, try_construct = "trim")]
        pub trimmed: String,
        /// IDL member `list`: `sequence<string<2>, 3>`.
        #[dds(bound = [3, 2], try_construct = "use_default")]
        #[dds(element_try_construct = "discard")]
        pub list: Vec<String>,
        /// IDL member `cut`: `sequence<string<2>>`.
        #[dds(bound = [_, 2], element_try_construct = "trim")]
        #[allow(clippy::box_collection, clippy::vec_box, reason = "the IDL has it so")]
        pub cut: Vec<Box<String>>,
        /// IDL member `states`: `sequence<sequence<Marked::State>, 3>`.
        #[dds(bound = 3, element_try_construct = ["trim", "use_default"])]
        pub states: Vec<Vec<State>>,
        /// IDL member `boxed`: `sequence<int32>`.
        #[dds(default = vec![Box::new(1), Box::new(2)])]
        #[allow(clippy::vec_box, reason = "the IDL has it so")]
        pub boxed: Vec<Box<i32>>,
        /// IDL member `by_name`: `map<string<2>, Marked::State>`.
        #[dds(bound = [_, 2], element_try_construct = "trim")]
        pub by_name: ::std::collections::BTreeMap<String, Box<State>>,
        /// IDL member `briefs`: `Marked::Brief[2][2]`.
        #[dds(bound = 2, element_try_construct = "trim")]
        pub briefs: [[Brief; 2]; 2],
        /// IDL member `three_texts`: `Marked::Three`.
        #[dds(bound = 3, element_try_construct = "trim")]
        pub three_texts: Three,
        /// IDL member `here_only`: `int32`.
        #[dds(non_serialized)]
        pub here_only: i32,
        /// First line.
        /// Second line.
        ///
        /// IDL member `documented`: `int32`.
        pub documented: i32,
    }

    /// IDL struct `Marked::Fixed_`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Fixed_", crate = "idl_cdr", extensibility = "final")]
    pub struct Fixed {
        /// IDL member `a`: `int32`.
        pub a: i32,
    }

    /// IDL struct `Marked::Growing`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Growing", crate = "idl_cdr")]
    #[dds(extensibility = "appendable", nested)]
    pub struct Growing {
        /// IDL member `a`: `int32`.
        pub a: i32,
    }

    /// IDL union `Marked::Choice` over `int32`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Choice", crate = "idl_cdr", union)]
    #[dds(discriminator = "i32", extensibility = "appendable", nested)]
    pub enum Choice {
        /// IDL member `number`: `int32`.
        #[dds(name = "number", case = 0)]
        Number(i32),
        /// IDL member `text`: `string`.
        #[dds(name = "text", id = 9, default)]
        Text {
            /// What selected it.
            discriminator: i32,
            /// The member.
            value: String,
        },
    }
    impl Choice {
        /// Nothing.
        pub const NONE: Self = Self::Number(0);
    }

    /// What a value is of which nothing is said.
    ///
    /// IDL union `Marked::Setting` over `Marked::State`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Setting", crate = "idl_cdr", union)]
    #[dds(discriminator = "State", discriminator_default = State::On)]
    #[dds(discriminator_try_construct = "use_default")]
    #[dds(extensibility = "appendable", nested)]
    pub enum Setting {
        /// IDL member `reason`: `string`.
        #[dds(name = "reason", external, case = State::Off)]
        #[dds(default_value = Box::new(String::from("none")))]
        #[allow(clippy::box_collection, reason = "the IDL has it so")]
        Reason(Box<String>),
        /// IDL member `level`: `double`, in `bar`.
        #[dds(name = "level", case = State::On, default_value = 2.5)]
        Level(f64),
    }

    /// IDL union `Marked::Coded` over `char`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Coded", crate = "idl_cdr", union)]
    #[dds(discriminator = "char", discriminator_default = 'x', nested)]
    #[allow(clippy::large_enum_variant, reason = "the IDL has it so")]
    pub enum Coded {
        /// IDL member `pair`: `int32[2]`.
        #[dds(name = "pair", case = 'a', 'b')]
        #[dds(default_value = vec![1, 2].try_into().expect("the elements were counted"))]
        Pair {
            /// What selected it.
            discriminator: char,
            /// The member.
            value: [i32; 2],
        },
        /// IDL member `other`: `int32`.
        #[dds(name = "other", id = 9, default, default_value = 7)]
        Other {
            /// What selected it.
            discriminator: char,
            /// The member.
            value: i32,
        },
    }

    /// IDL typedef `Marked::Height`: `double`.
    pub type Height = f64;

    /// IDL struct `Marked::Tower`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Marked::Tower", crate = "idl_cdr", nested)]
    pub struct Tower {
        /// IDL member `height`: `Marked::Height`, in `m`.
        #[dds(range(min = 0.0), unit = "m")]
        pub height: Height,
        /// IDL member `low`: `Marked::Height`, in `m`.
        #[dds(range(min = 0.0, max = 100.0), unit = "m")]
        pub low: Height,
    }

    /// IDL enum `Marked::Loose`.
    ///
    /// Its names do not count where types are compared.
    #[derive(::idl_cdr::DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[dds(name = "Marked::Loose", crate = "idl_cdr", bit_bound = 16)]
    #[dds(ignore_literal_names)]
    pub enum Loose {
        /// IDL enumerator `A`.
        A,
        /// IDL enumerator `B`.
        B,
    }
}

/// IDL module `Listed`.
pub mod listed {
    /// IDL struct `Listed::Point`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Listed::Point", crate = "idl_cdr")]
    pub struct Point {
        /// IDL member `x`: `int32`.
        #[dds(key)]
        pub x: i32,
        /// IDL member `y`: `int32`.
        #[dds(key)]
        pub y: i32,
    }

    /// IDL struct `Listed::Plot`.
    #[derive(::idl_cdr::DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Listed::Plot", crate = "idl_cdr")]
    pub struct Plot {
        /// IDL member `name`: `string`.
        #[dds(key)]
        pub name: String,
        /// IDL member `at`: `Listed::Point`.
        #[dds(key)]
        pub at: Point,
        /// IDL member `value`: `int32`.
        pub value: i32,
    }
}
