// Command katib stands in for katib-db-manager, which needs a database: it listens at the address that is its argument,
// and prints each report of a metrics collector as a line of JSON.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net"
	"os"

	api "github.com/kubeflow/katib/pkg/apis/manager/v1beta1"
	"google.golang.org/grpc"
)

// manager answers the one call that collectors make.
type manager struct {
	api.UnimplementedDBManagerServer
}

func (manager) ReportObservationLog(
	_ context.Context, request *api.ReportObservationLogRequest,
) (*api.ReportObservationLogReply, error) {
	return &api.ReportObservationLogReply{}, json.NewEncoder(os.Stdout).Encode(request)
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDBManagerServer(server, manager{})
	log.Fatal(server.Serve(listener))
}
