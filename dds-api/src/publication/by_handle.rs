//! Writes of an instance that the application names by its handle as well.
//!
//! Owns: the comparison of the handle with the key. Never does: write.

use std::time::SystemTime;

use idl_xtypes::TopicData;

use super::writer::DataWriter;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};

/// Calls of the standard with the handle of an instance. The handle is one that
/// [`register_instance`](DataWriter::register_instance) of this writer has returned for the key of
/// the sample. The calls without a handle determine the instance by the key alone, and so do these
/// calls with [`InstanceHandle::NIL`].
///
/// # Errors
/// [`DdsError::BadParameter`] if the handle is not that of an instance that
/// [`lookup_instance`](DataWriter::lookup_instance) finds; [`DdsError::PreconditionNotMet`] if the
/// instance has another key than the sample. In both cases nothing is written.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// let track = Track { id: 7, height: 3000.0 };
/// let handle = writer.register_instance(&track)?;
/// writer.write_w_handle(&track, handle)?;
/// writer.unregister_instance_w_handle(&track, handle)?;
/// # Ok(())
/// # }
/// ```
impl<T: TopicData> DataWriter<T> {
    /// Does what [`DataWriter::write`] does, to the instance with this handle.
    #[doc(alias = "write")]
    pub fn write_w_handle(&self, sample: &T, handle: InstanceHandle) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.write(sample)
    }

    /// Does what [`DataWriter::write_w_timestamp`] does, to the instance with this handle.
    #[doc(alias = "write_w_timestamp")]
    pub fn write_w_handle_w_timestamp(
        &self,
        sample: &T,
        handle: InstanceHandle,
        time: SystemTime,
    ) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.write_w_timestamp(sample, time)
    }

    /// Does what [`DataWriter::dispose`] does, to the instance with this handle.
    #[doc(alias = "dispose")]
    pub fn dispose_w_handle(&self, sample: &T, handle: InstanceHandle) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.dispose(sample)
    }

    /// Does what [`DataWriter::dispose_w_timestamp`] does, to the instance with this handle.
    #[doc(alias = "dispose_w_timestamp")]
    pub fn dispose_w_handle_w_timestamp(
        &self,
        sample: &T,
        handle: InstanceHandle,
        time: SystemTime,
    ) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.dispose_w_timestamp(sample, time)
    }

    /// Does what [`DataWriter::unregister_instance`] does, to the instance with this handle.
    #[doc(alias = "unregister_instance")]
    pub fn unregister_instance_w_handle(
        &self,
        sample: &T,
        handle: InstanceHandle,
    ) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.unregister_instance(sample)
    }

    /// Does what [`DataWriter::unregister_instance_w_timestamp`] does, to the instance with this
    /// handle.
    #[doc(alias = "unregister_instance_w_timestamp")]
    pub fn unregister_instance_w_handle_w_timestamp(
        &self,
        sample: &T,
        handle: InstanceHandle,
        time: SystemTime,
    ) -> DdsResult<()> {
        self.check_handle(sample, handle)?;
        self.unregister_instance_w_timestamp(sample, time)
    }

    fn check_handle(&self, sample: &T, handle: InstanceHandle) -> DdsResult<()> {
        self.enabling.check()?;
        if handle == InstanceHandle::NIL {
            return Ok(());
        }
        // A type without a key has one instance, which is known without being noted.
        let is_known = |key: &u128| !self.known.has_key() || self.known.knows(*key);
        let named = handle.instance_key().filter(is_known);
        match named {
            None => Err(self.unknown_instance(handle)),
            Some(key) if key == self.key_of(sample)? => Ok(()),
            Some(_) => Err(DdsError::PreconditionNotMet(format!(
                "the sample of `{}` has another key than instance {handle}: pass the handle that \
                 register_instance returned for the key of the sample",
                self.topic().name()
            ))),
        }
    }
}
