// The etcd server, as its own program is: the releases are not packaged, so this builds one from the module.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
