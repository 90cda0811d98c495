use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union)]
enum WithoutDiscriminator {
    #[dds(case = 1)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "f32")]
enum FloatDiscriminator {
    #[dds(default)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum WithoutCase {
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum SameLabel {
    #[dds(case = 1, 2)]
    A(u32),
    #[dds(case = 2)]
    B(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum LabelOfAnotherType {
    #[dds(case = 1)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum TwoMembers {
    #[dds(case = 1)]
    A(u32, u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum OptionalMember {
    #[dds(case = 1)]
    A(Option<u32>),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum KeyMember {
    #[dds(case = 1, key)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum IdOfTheDiscriminator {
    #[dds(case = 1, id = 0)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum LabelOfAnotherKind {
    #[dds(case = 1, 2)]
    A { discriminator: u8, value: u32 },
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum WithoutPlaceForTheLabel {
    #[dds(case = 1, 2)]
    A { value: u32 },
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum AttributeInside {
    #[dds(case = 1, 2)]
    A {
        discriminator: i32,
        #[dds(bound = 3)]
        value: String,
    },
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "u8", discriminator_default = 'x')]
enum DefaultThatDoesNotFit {
    #[dds(case = 1)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "u8", discriminator_try_construct = "trim")]
enum TrimmedDiscriminator {
    #[dds(case = 1)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
enum DefaultOfNoMember {
    #[dds(case = 1)]
    A(u32),
    #[dds(default, default_value = 3)]
    B,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
enum DefaultOfTheMember {
    #[dds(case = 1, default = 3)]
    A(u32),
}

fn main() {}
