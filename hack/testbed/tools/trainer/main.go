// Command trainer reads cases as JSON from standard input, each a TrainJob with its runtime, and prints for each what
// Kubeflow Trainer's own code makes of it: the objects, or what its webhook refuses.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	coscheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	config "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
)

// input is a case: all runtimes are cluster-wide.
type input struct {
	TrainJob trainer.TrainJob                 `json:"trainJob"`
	Runtimes []trainer.ClusterTrainingRuntime `json:"runtimes"`
}

// output has the objects of a case, or why there are none.
type output struct {
	Objects []apiruntime.ApplyConfiguration `json:"objects,omitempty"`
	Refused []string                        `json:"refused,omitempty"`
}

func main() {
	cases := map[string]input{}
	check(json.NewDecoder(os.Stdin).Decode(&cases))
	results := map[string]output{}
	for name, found := range cases {
		results[name] = render(found)
	}
	check(json.NewEncoder(os.Stdout).Encode(results))
}

func render(found input) output {
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{
		clientgoscheme.AddToScheme, trainer.AddToScheme, jobset.AddToScheme, coscheduling.AddToScheme, volcano.AddToScheme,
	} {
		check(add(scheme))
	}
	ctx, builder := context.Background(), fake.NewClientBuilder().WithScheme(scheme)
	for i := range found.Runtimes {
		withDefaults(found.Runtimes[i].Spec.MLPolicy)
		builder = builder.WithObjects(&found.Runtimes[i])
	}
	runtimes, err := core.New(ctx, builder.Build(), noIndex{}, &config.Configuration{})
	check(err)
	runtime := runtimes[core.ClusterTrainingRuntimeGroupKind]
	if _, problems := runtime.ValidateObjects(ctx, nil, &found.TrainJob); len(problems) > 0 {
		refused := []string{}
		for _, problem := range problems {
			refused = append(refused, problem.Error())
		}
		return output{Refused: refused}
	}
	objects, err := runtime.NewObjects(ctx, &found.TrainJob)
	if err != nil {
		return output{Refused: []string{err.Error()}}
	}
	return output{Objects: objects}
}

// withDefaults sets what the API server sets: the defaults of the CRD of runtimes.
func withDefaults(policy *trainer.MLPolicy) {
	if policy == nil || policy.MPI == nil {
		return
	}
	implementation, processes, path, launcher := trainer.MPIImplementationOpenMPI, int32(1), "/root/.ssh", false
	set(&policy.MPI.MPIImplementation, &implementation)
	set(&policy.MPI.NumProcPerNode, &processes)
	set(&policy.MPI.SSHAuthMountPath, &path)
	set(&policy.MPI.RunLauncherAsNode, &launcher)
}

func set[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}

// noIndex accepts indexes, which only Trainer's watches need.
type noIndex struct{}

func (noIndex) IndexField(context.Context, client.Object, string, client.IndexerFunc) error { return nil }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
