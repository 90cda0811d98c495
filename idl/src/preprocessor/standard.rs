//! Files that belong to the standard and that every compiler brings along.
//!
//! Owns the types of module `DDS` for files that include them without having them.

/// Names of files with the standard's own types; all of them have the same contents.
const NAMES: [&str; 4] =
    ["dds_dcps.idl", "dds_rtf2_dcps.idl", "dds_primitives.idl", "dds_builtin_types.idl"];

/// Types and entities of module `DDS`. The entities are known by name, so that an error can say
/// that no sample carries them.
const TEXT: &str = "\
module DDS {
    typedef sequence<boolean> BooleanSeq;
    typedef sequence<octet> ByteSeq;
    typedef sequence<octet> OctetSeq;
    typedef sequence<char> CharSeq;
    typedef sequence<short> ShortSeq;
    typedef sequence<unsigned short> UShortSeq;
    typedef sequence<long> LongSeq;
    typedef sequence<unsigned long> ULongSeq;
    typedef sequence<long long> LongLongSeq;
    typedef sequence<unsigned long long> ULongLongSeq;
    typedef sequence<float> FloatSeq;
    typedef sequence<double> DoubleSeq;
    typedef sequence<string> StringSeq;
    typedef long DomainId_t;
    typedef long ReturnCode_t;
    typedef unsigned long StatusMask;
    typedef long long InstanceHandle_t;
    typedef sequence<InstanceHandle_t> InstanceHandleSeq;
    @nested struct BuiltinTopicKey_t { long value[3]; };
    @nested struct Duration_t { long sec; unsigned long nanosec; };
    @nested struct Time_t { long sec; unsigned long nanosec; };
    interface Entity;
    interface DomainParticipant;
    interface TopicDescription;
    interface Topic;
    interface Publisher;
    interface Subscriber;
    interface DataWriter;
    interface DataReader;
    interface Condition;
    interface WaitSet;
};
";

/// Returns the text of a file of the standard, if the name, without directories, is one.
pub(super) fn standard_file(name: &str) -> Option<&'static str> {
    let name = name.rsplit(['/', '\\']).next()?;
    NAMES.contains(&name).then_some(TEXT)
}
