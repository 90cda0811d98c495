//! Compiles the topic types of the example `idl_types` from IDL.

fn main() -> Result<(), idl::build::BuildError> {
    idl::build::compile(&["idl/fleet.idl"])
}
