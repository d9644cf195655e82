fn main(){ let _n = unsafe { foundationdb::boot() }; }
