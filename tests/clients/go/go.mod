module keel/tests/clients/go

go 1.18

require github.com/apple/foundationdb/bindings/go v0.0.0-20250911184653-27f7192f47c3
