//! The three states that distinguish samples, and masks of them.
//!
//! Owns: the states that a reading call may ask for. Never does: determine the state of anything.

use std::ops::BitOr;

/// Defines a state and the mask of several such states. The variants have the order of
/// the standard.
macro_rules! state {
    (
        $(#[$doc:meta])* $name:ident, $mask:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $constant:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        #[doc = concat!("Any number of [`", stringify!($name), "`]s; put together with `|`.\n")]
        #[doc = concat!("```\nuse dds_api::subscription::", stringify!($mask), ";\n")]
        #[doc = concat!("assert_eq!(", stringify!($mask), "::default(), ", stringify!($mask), "::ANY);\n```")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $mask(u8);

        impl $mask {
            $($(#[$variant_doc])* pub const $constant: Self = Self(1 << $name::$variant as u8);)*
            /// Any state.
            pub const ANY: Self = Self($(Self::$constant.0)|*);

            /// Whether the mask contains this state.
            #[inline]
            pub const fn has(self, state: $name) -> bool {
                self.0 & 1 << state as u8 != 0
            }
        }

        impl From<$name> for $mask {
            fn from(state: $name) -> Self {
                Self(1 << state as u8)
            }
        }

        impl BitOr for $mask {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl Default for $mask {
            fn default() -> Self {
                Self::ANY
            }
        }
    };
}

state! {
    /// Whether a sample has been read before.
    ///
    /// ```
    /// use dds_api::subscription::{SampleState, States};
    ///
    /// assert!(!States::not_read().sample.has(SampleState::Read));
    /// ```
    SampleState, SampleStateMask {
        /// The sample has been read.
        Read = READ,
        /// The sample has not been read.
        NotRead = NOT_READ,
    }
}

state! {
    /// Whether a sample of an instance has been read or taken since the instance was last born.
    ///
    /// ```
    /// use dds_api::subscription::{States, ViewState};
    ///
    /// let newborn = States::any().of_views(ViewState::New);
    /// assert!(!newborn.view.has(ViewState::NotNew));
    /// ```
    ViewState, ViewStateMask {
        /// No sample has been read or taken: the instance is new to this reader, or was reborn.
        New = NEW,
        /// A sample has been read or taken.
        NotNew = NOT_NEW,
    }
}

state! {
    /// Whether an instance is alive.
    ///
    /// ```
    /// use dds_api::subscription::{InstanceState, States};
    ///
    /// let alive = States::any().of_instances(InstanceState::Alive);
    /// assert!(!alive.instance.has(InstanceState::NotAliveDisposed));
    /// ```
    InstanceState, InstanceStateMask {
        /// The instance has been written, is not disposed, and has a writer.
        Alive = ALIVE,
        /// A writer has disposed the instance.
        NotAliveDisposed = NOT_ALIVE_DISPOSED,
        /// The instance has no writers: each has unregistered it, or is gone.
        NotAliveNoWriters = NOT_ALIVE_NO_WRITERS,
    }
}

/// Selection of samples by all three states. The default selects all samples.
///
/// ```
/// use dds_api::subscription::{InstanceState, InstanceStateMask, SampleState, States};
///
/// let unread = States::not_read();
/// assert!(unread.sample.has(SampleState::NotRead) && !unread.sample.has(SampleState::Read));
/// let over = States::any().of_instances(
///     InstanceStateMask::NOT_ALIVE_DISPOSED | InstanceStateMask::NOT_ALIVE_NO_WRITERS,
/// );
/// assert!(!over.instance.has(InstanceState::Alive));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct States {
    /// States of the sample.
    pub sample: SampleStateMask,
    /// States of the reader's view of the instance.
    pub view: ViewStateMask,
    /// States of the instance.
    pub instance: InstanceStateMask,
}

impl States {
    /// Selects all samples.
    pub fn any() -> Self {
        States::default()
    }

    /// Selects samples that have not been read.
    pub fn not_read() -> Self {
        States::any().of_samples(SampleStateMask::NOT_READ)
    }

    /// Restricts the selection to samples in these states.
    pub fn of_samples(self, sample: impl Into<SampleStateMask>) -> Self {
        States { sample: sample.into(), ..self }
    }

    /// Restricts the selection to instances with these view states.
    pub fn of_views(self, view: impl Into<ViewStateMask>) -> Self {
        States { view: view.into(), ..self }
    }

    /// Restricts the selection to instances in these states.
    pub fn of_instances(self, instance: impl Into<InstanceStateMask>) -> Self {
        States { instance: instance.into(), ..self }
    }
}
